"""What predictors by soft votes under learned maps share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.sparse import csr_matrix, vstack
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    is_classifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import _num_samples, check_is_fitted

from metricfast._core.arguments import check_bool, check_random_state
from metricfast._core.parameters import (
    NonNegativeFloat,
    NumberOfJobs,
    PositiveFloat,
    PositiveInt,
    PositiveIntegers,
    Seed,
    Share,
    Verbosity,
    check_parameters,
)
from metricfast._core.types import Array, Floats, Integers
from metricfast._core.warn import warn_user
from metricfast.distances.database import Database
from metricfast.embeddings import MLP, Embedding, Linear, Periodic
from metricfast.embeddings._asymmetric import with_length
from metricfast.learners.base.html import learned_table, with_table
from metricfast.predictors.relevance import embed_rows, shares_of_columns
from metricfast.predictors.soft_training import (
    LARGE,
    MOST_CANDIDATES,
    Task,
    Training,
    plan,
    race,
    sharpness,
)
from metricfast.predictors.soft_votes import SoftVotes
from metricfast.predictors.tables import Table
from metricfast.predictors.targets import judge_of_points, rows_of_table
from metricfast.selection._judge import Judge, JudgeParameter
from metricfast.selection._splits import ENOUGH, draw_rows, split_points
from metricfast.training.callbacks import CallbackMixin
from metricfast.training.samples import Samples
from metricfast.training.train import warn_of_cost

# Maps that n_estimators="auto" learns of tables that are not large; the judge "auto" holds as many
# parts out. Predictions have no given distance, so a lower cost is enough.
_MAPS = 5
_OWN_JUDGE = Judge(n_splits=_MAPS, errors=0)
# Maximum number of points from which parts are held out.
_DRAWN = 5 * LARGE
# Hidden layers of the perceptron that hidden="auto" tries, and the points that it takes to try it.
_HIDDEN, _ENOUGH = (256, 256), 3000


MakeTask = Callable[[Array, Integers, Floats | None], Task]
Hidden = PositiveIntegers | Literal["auto"] | None


@dataclass(eq=False, repr=False)
class SoftNeighbors(
    CallbackMixin,
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A predictor by soft votes of all points of `fit`, under maps that are learned for these."""

    n_components: PositiveInt = 64
    _: KW_ONLY
    periodic: Literal["auto", True, False] = "auto"
    n_frequencies: PositiveInt = 16
    n_embedding: PositiveInt = 8
    scale: Literal["auto"] | PositiveFloat = "auto"
    candidate_fraction: Share = 0.5
    n_estimators: Literal["auto"] | PositiveInt = "auto"
    categorical_features: Any = "from_dtype"
    solver: Literal["adamw", "adam"] = "adamw"
    learning_rate: PositiveFloat = 0.01
    weight_decay: NonNegativeFloat = 0.0002
    batch_size: Literal["auto"] | PositiveInt = "auto"
    max_epochs: PositiveInt = 100
    judge: JudgeParameter = "auto"
    time_limit: PositiveFloat | None = None
    random_state: Seed = None
    n_jobs: NumberOfJobs = None
    verbose: Verbosity = False

    _fit_task: ClassVar[Any] = None  # for scikit-learn's callbacks, while `fit` runs

    def _learn(self, X: Any, weight: Floats | None, make_task: MakeTask) -> Floats | None:
        """Encode points, choose an embedding for them, and train the maps.

        `X`: as it was given; its rows of weight 0 are left out.
        `make_task`: returns what is to be predicted of encoded points, which are some rows of X.
        Returns the means of votes of each point by the map that it was held out from, if one was.
        """
        check_parameters(self)
        judge = judge_of_points(_OWN_JUDGE if _is_auto(self.judge) else self.judge)
        end = math.inf if self.time_limit is None else time.monotonic() + self.time_limit
        self.__dict__.pop("_database", None)
        self.n_samples_fit_ = _num_samples(X)
        if weight is None:
            self._rows = np.arange(self.n_samples_fit_)
        else:
            self._rows = np.flatnonzero(weight)
            X = rows_of_table(X, self._rows)
            # In the losses, a weight above 1 means repeated points, which would find each other.
            weight = weight[self._rows] / weight.max()
            weight = np.maximum(weight, np.finfo(np.float64).tiny)
        self._table, self._scores = table, scores = Table(self, X, weight), None
        E = table.encoded(self, X)
        choices = self._choices(len(E), E.shape[1] - table.n_indicators, table.n_indicators)
        task = make_task(E, self._rows, weight)
        task = task if judge is None else self._measured(judge, task)
        splits = self._splits(E, task.labels[:, 0], judge)
        several, n_maps, embedding = len(choices) > 1, len(splits), next(iter(choices.values()))
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=n_maps)
        n = len(splits[0][0])
        solver = plan(self, embedding, n)[0]
        if self.time_limit is None:
            shape, compared = (self.n_components, E.shape[1]), min(n, MOST_CANDIDATES)
            warn_of_cost([shape], n, compared, solver.batch_size or n, solver, self.n_jobs)
        if self._fit_task is not None:
            known = judge is None or not several
            self._fit_task.begin("epoch", n_maps * solver.n_iter if known else None)
        labels = [f"{type(self).__name__} {place + 1}/{n_maps}" for place in range(n_maps)]
        trained: list[Training] = []
        if judge is not None:
            tasks, share = {"": task}, 1 / n_maps
            if several:
                # Half of the time is for what follows the race, if anything does.
                more = n_maps > 1 or len(splits[0][0]) > LARGE or "perceptron" in choices
                share, scores = 1 / 2 if more else 1, table.scores(self, X, weight)
                by_scores = Samples(table.encoded(self, X, scores), weight=weight)
                tasks[", normal scores"] = replace(task, samples=by_scores)
            begin = partial(Training, self, deadline=_deadline(end, share))
            final, is_final, self.judgement_ = race(
                judge, tasks, choices, splits[0], seeds[0], begin, labels[0]
            )
            self._scores = None if final.task is task else scores
            task, embedding = final.task, final.embedding
            trained += [final] * is_final
        for place in range(len(trained), n_maps):
            how = {"seed": seeds[place], "deadline": _deadline(end, 1 / (n_maps - place))}
            trained.append(Training(self, task, embedding, splits[place], **how).run(labels[place]))
        return self._keep(trained, task, weight)

    def _measured(self, judge: Judge, task: Task) -> Task:
        """Return the task with the measure of the judge."""
        if judge.measure in ("auto", task.measure):
            return task
        name, measure = judge.costs_by("classes" if is_classifier(self) else "numbers")
        if task.labels.shape[1] > 1:
            raise ValueError(
                f"measure of the judge must be 'auto' if y has several outputs; got {name!r}."
            )
        return replace(task, measure=name, measured=measure)

    def _splits(self, E: Array, codes: Integers, judge: Judge | None) -> list[tuple[Integers, Any]]:
        """Return the rows that train each map, and those that are held out."""
        n, auto = len(E), _is_auto(self.n_estimators)
        most = (_MAPS if n <= LARGE else 1) if auto else int(self.n_estimators)
        if judge is None:
            return [(np.arange(n), None)] * most
        enough = LARGE if n <= LARGE else ENOUGH
        drawn = draw_rows(codes, None, _DRAWN)
        parts = split_points(  # rows that are equal are apart, as they will be in new tables
            E[drawn], codes[drawn], n_splits=judge.n_splits, least=0, unit="points",
            n_enough=enough, views=drawn,
        )  # fmt: skip
        held_out = [np.sort(drawn[part.queries]) for part in parts if len(part.train) > 1]
        if not held_out:
            raise ValueError(
                f"X has n_samples={n} of weight above 0, which are too few to hold one out and to "
                "train on two: give more points, or judge=None."
            )
        if auto and n <= LARGE:
            most = len(held_out)
        found = [(np.setdiff1d(np.arange(n), rows), rows) for rows in held_out]
        return [found[i % len(found)] for i in range(most)]

    def _choices(self, n: int, n_numbers: int, n_indicators: int) -> dict[str, Embedding]:
        """Return the embeddings to choose among, for n points."""
        hidden = getattr(self, "hidden", None)  # a classifier has no perceptron
        if hidden is not None and not _is_auto(hidden):
            widths = tuple(hidden) if np.iterable(hidden) else (hidden,)
            return {"perceptron": MLP(widths, self.n_components, "tanh")}
        found: dict[str, Embedding] = {}
        periodic = (False, True) if _is_auto(self.periodic) else (bool(self.periodic),)
        if _is_auto(self.periodic) and n_numbers > 1000:
            periodic = (False,)
        if False in periodic or not n_numbers:
            found["linear map"] = Linear(self.n_components, init="random")
        if True in periodic and n_numbers:
            # Spreads of frequencies, in turns for each standard deviation of a column.
            for scale in (0.03, 0.3, 1.0) if _is_auto(self.scale) else (float(self.scale),):
                found[f"periodic, scale {scale:g}"] = Periodic(
                    self.n_components, self.n_frequencies, self.n_embedding, scale, n_indicators
                )
        if _is_auto(hidden) and n >= _ENOUGH:
            found["perceptron"] = MLP(_HIDDEN, self.n_components, "tanh")
        return found

    def _keep(self, trained: list[Training], task: Task, weight: Floats | None) -> Floats | None:
        """Set what is fitted, and return the means of votes of held-out points."""
        if any(not each.costs for each in trained):
            raise ValueError(
                "The loss is not finite in the first epoch of training: lower learning_rate."
            )
        if any(each.diverged for each in trained):
            warn_user(
                "Training diverged: the best parameters are kept. Lower learning_rate.",
                ConvergenceWarning,
            )
        if all(each.history.still for each in trained):
            needed = "2 points of a class and 1 of another" if is_classifier(self) else "3 points"
            warn_user(
                "The training points give no gradient, so the map stays as it was drawn. Training "
                f"takes at least {needed}, in addition to validation points, and columns that "
                "vary: give more points.",
                ConvergenceWarning,
            )
        E, self._values, factor = task.samples.X, task.votes, sharpness(trained)
        self.embedding_ = with_length(trained[0].embedding, False)
        self.validation_costs_ = [each.costs for each in trained]
        self.parameters_ = [each.learned(factor) for each in trained]
        self._relevance = shares_of_columns(
            self.embedding_, self.parameters_, E, self._table.origin, weight, self.n_jobs
        )
        self._voters = [SoftVotes(Z, weight, self.n_jobs) for Z in self._embedded(E)]
        once = np.concatenate([np.zeros(0, np.int64) if each.held_out is None else each.held_out
                               for each in trained])  # fmt: skip
        if not np.array_equal(np.sort(once), np.arange(len(E))):
            return None
        values = self._values.astype(np.float64)
        means = np.full((self.n_samples_fit_, values.shape[1]), np.nan)
        for each, voters in zip(trained, self._voters, strict=True):
            means[self._rows[each.held_out]] = each.held_out_means(voters.points, values)
        return means

    @cached_property
    def _database(self) -> Database:
        """The points under all maps, for searches; model files do not hold it."""
        points = np.concatenate([voters.points for voters in self._voters], axis=1)
        return Database(points, n_jobs=self.n_jobs)

    def _embedded(self, E: Array) -> list[Array]:
        """Return encoded points under each of the maps."""
        return [embed_rows(self.embedding_, arrays, E, self.n_jobs) for arrays in self.parameters_]

    def _queries(self, X: Any) -> tuple[list[Array], Integers | None]:
        """Return points under each of the maps; without any those of `fit`, and what they leave."""
        check_is_fitted(self, "parameters_")
        if X is None:
            return [each.points for each in self._voters], np.arange(len(self._rows))
        return self._embedded(self._table.encoded(self, X, self._scores)), None

    def _means(self, X: Any) -> Floats:
        """Return the mean of what the maps say."""
        queries, exclude = self._queries(X)
        found = [
            voters.means(self._values.astype(np.float64), Z, exclude, self.n_jobs)
            for voters, Z in zip(self._voters, queries, strict=True)
        ]
        means: Floats = np.mean(found, axis=0)
        return means

    @property
    def relevance_(self) -> Floats:
        r"""The share of each column of X in the squared distances of the map.

        Column j has the share :math:`S_j / \sum_k S_k`, where
        :math:`S_j = \frac{1}{2} E \|z(x) - z(x^{(j)})\|^2` is the total Sobol index of the map z,
        estimated as by Jansen. Here, x is a training point, and :math:`x^{(j)}` the same point with
        the value of column j of another training point. For a linear map, S is the diagonal of
        :math:`M = L^T L` times the variances of columns. Shares of several maps are averaged.

        Returns
        -------
        ndarray of shape (n_features,)
            At least 0, with sum 1, in the order of `feature_names_in_`. A column of categories has
            one number, and so has a column with missing values. If the map moves no point, all
            shares are the same.

        Raises
        ------
        NotFittedError
            Before `fit`.

        Notes
        -----
        Up to 1,024 pairs of points are drawn; of a perceptron with more than 48 columns, or more
        than 16,384 encoded columns, fewer, down to 128. Equal columns divide one share, so a small
        share does not mean that a column is uninformative. A column without information has a share
        above 0, because training adapts the map to chance too.

        References
        ----------
        M. J. W. Jansen, "Analysis of variance designs for model output", Computer Physics
        Communications 117, 1999.

        Examples
        --------
        >>> from metricfast import NCAClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> model = NCAClassifier(periodic=False, max_epochs=30, random_state=0).fit(X, y)
        >>> bool(model.relevance_[2:].sum() > 0.7)  # petals separate the species
        True
        """
        check_is_fitted(self, "parameters_")
        return self._relevance

    def votes(self, X: Any = None) -> csr_matrix:
        """Return the share of each training point in each prediction: what decided.

        Parameters
        ----------
        X : array-like or frame of shape (n_queries, n_features), optional
            By default the points of `fit` (of weight above 0); no point predicts itself.

        Returns
        -------
        scipy.sparse.csr_matrix of shape (n_queries, n_samples_fit)
            Rows add up to 1. Points that have together less than a ten-thousandth of the votes of a
            map may be left out.
        """
        queries, exclude = self._queries(X)
        total: Any = 0
        for voters, Z in zip(self._voters, queries, strict=True):
            found = list(voters.shares(Z, exclude, self.n_jobs))
            order = np.argsort(np.concatenate([rows for rows, _ in found]))
            shares = vstack([csr_matrix(share) for _, share in found], format="csr")[order]
            total = total + shares / len(self._voters)
        found = csr_matrix(total)
        parts = found.data, self._rows[found.indices], found.indptr
        return csr_matrix(parts, shape=(found.shape[0], self.n_samples_fit_))

    def kneighbors(
        self, X: Any = None, n_neighbors: int = 5, return_distance: bool = True
    ) -> tuple[Array, Integers] | Integers:
        """Return the nearest training points of each query, by the distance of `transform`.

        Parameters
        ----------
        X : array-like or frame of shape (n_queries, n_features), optional
            By default the points of `fit` (of weight above 0), each left out of its own neighbours.
        n_neighbors : int, default=5
        return_distance : bool, default=True

        Returns
        -------
        distances : ndarray of shape (n_queries, n_neighbors)
            Nearest first; only with `return_distance`.
        indices : ndarray of int64 of shape (n_queries, n_neighbors)
            Rows of `fit`.
        """
        check_bool("return_distance", return_distance)
        queries, exclude = self._queries(X)
        Z = queries[0] if len(queries) == 1 else np.concatenate(queries, axis=1)
        found = self._database.kneighbors(Z, n_neighbors, exclude=exclude, n_jobs=self.n_jobs)
        return (found[0], self._rows[found[1]]) if return_distance else self._rows[found[1]]

    def transform(self, X: Any) -> Array:
        """Embed points, by one map after the other.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of float32 of shape (n_samples, n_estimators * n_components)
            A point votes in proportion to ``exp(-distance)`` of what one map gives.
        """
        return np.concatenate(self._queries(X)[0], axis=1)

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + learned_table(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return with_table(super()._repr_mimebundle_(**kwargs), self)

    def _learned(self) -> Iterator[tuple[str, str]]:
        yield "points that vote", str(len(self._rows))
        yield "features", f"{self.n_features_in_} to {self._n_features_out} components"
        yield "embedding", repr(self.embedding_)
        where, of = ("last epoch", -1) if self.judge is None else ("held out", None)
        best = (costs[-1:] if of else sorted(costs)[:1] for costs in self.validation_costs_)
        yield f"loss, {where}", ", ".join(f"{cost:.4g}" for costs in best for cost in costs)
        yield "epochs", ", ".join(str(len(costs)) for costs in self.validation_costs_)

    @property
    def _n_features_out(self) -> int:
        return sum(len(arrays[-1]) for arrays in self.parameters_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "parameters_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []
        tags.target_tags.required = tags.target_tags.multi_output = True
        return tags


def _deadline(end: float, share: float) -> float:
    """Return the time after a share of what is left until `end`."""
    now = time.monotonic()
    return now + share * max(end - now, 0.0)


def _is_auto(given: object) -> bool:
    return isinstance(given, str) and given == "auto"
