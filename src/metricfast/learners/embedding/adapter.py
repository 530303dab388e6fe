"""A linear adapter of embeddings that are given, from pairs of points."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_random_state, check_unused
from metricfast._core.initialize import check_n_components
from metricfast._core.parameters import NumberOfJobs, PositiveInt, PositiveIntegers, Seed, Verbosity
from metricfast._core.types import Array
from metricfast.embeddings import Asymmetric, Embedding, Identity, Linear
from metricfast.learners.base.inputs import begin_fit, check_order_judge, check_warm_start
from metricfast.learners.embedding.adapter_training import (
    LAST,
    AdapterTraining,
    Start,
    identity,
    one_sided,
    projection,
    stay,
)
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.learners.embedding.pairs import Pairs, load_pairs
from metricfast.learners.trained import forget_on_error
from metricfast.losses import CoSENT, NTXent
from metricfast.losses._call import BaseLoss
from metricfast.selection._judge import JudgeParameter, as_judge
from metricfast.training.callbacks import CallbackMixin, as_callbacks, reports_to_sklearn
from metricfast.training.checkpoint import CheckpointFile
from metricfast.training.fingerprint import params_of
from metricfast.training.history import History, Vector
from metricfast.training.objective import Objective
from metricfast.training.solvers import LBFGS


@dataclass(eq=False, repr=False)
class AdapterLearner(CallbackMixin, EmbeddedMetricMixin):
    """A linear map of the embeddings that you have, from scored pairs or from positives.

    The map makes cosines of pairs follow their scores, or finds the document that belongs to a
    query. It starts from the identity, and a penalty holds it there. The weight of the penalty is
    chosen on held-out pairs. If no map is better there by two standard errors than the points as
    given, they stay as they are, and you get a warning.

    Parameters
    ----------
    side : {"both", "query", "database"}, default="both"
        The points to map. With "query", the database stays as it is: you search your vector store
        for mapped queries, and embed no document anew.
    n_components : int or sequence of int, optional
        Dimension of mapped points, by default n_features. The map starts from as many first
        features, or from the principal directions of all points. With several, such as
        ``(64, 128, 256)``, the dimension is the greatest one, and the first 64 and 128 coordinates
        work as well: cut points after them, and divide them by their length. The loss is then the
        mean over these prefixes. Only for ``side="both"``.
    rank : int, optional
        Greatest rank of the change of points, by default not limited: the map is ``I + A @ B.T``,
        where A and B have so many columns, or ``A @ B.T`` if the sides have other features. With
        fewer `n_components`, the start is in the place of I.
    loss : "auto" or loss, default="auto"
        `CoSENT` for scores, by default with scale 5; a loss with `takes_tags` for pairs that belong
        together, by default `NTXent` with temperature 0.07, or 0.03 if one side is mapped. The
        other pairs of a block of 512 queries are negatives.
    judge : "auto", None or Judge, default="auto"
        Chooses the start and the penalty on held-out pairs; see
        :class:`~metricfast.selection.Judge`, of which `n_splits` and `errors` may be set. With
        None, nothing is held out: the map starts from the identity, with a fixed penalty.
    warm_start : bool, default=False
        Continue from the map of the last fit, if there is one, which new pairs may improve. Give
        new pairs alone: the judge would find the map too good on pairs that it has learned from.
        The judge compares with it in place of the points as given: if no map is better on held-out
        pairs by one standard error, it stays, without a warning. Points as given may still win.
    callbacks : iterable of callables, optional
        Each is called with a `metricfast.callbacks.SolverState` after every iteration of the last
        training, the one of all pairs, and of the one before on many pairs that no fold holds out.
        Trainings on folds are not reported. One that returns True ends the training.
        `metricfast.callbacks.Checkpoint` writes the training to a file, and continues from it after
        the judge has chosen again.
    preprocessor : array-like or callable, optional
        Returns the points where `pairs` holds indicators of points.
    verbose : bool or int, default=False
        Show progress of the last training on standard error.
    random_state : int, RandomState or None, default=None
        For the division into training and validation pairs.
    n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.

    Attributes
    ----------
    embedding_ : Embedding
        The embedding, whose parameters are in
    parameters_ : list of ndarray
        The map, in float32 for float32 points, else in float64.
    start_ : {"identity", "features", "projection", "regression", "orthogonal", "last fit"}
        The start that was chosen: the points as given; their first features; the principal
        directions; the map of the last fit. With one side fixed also least squares from the points
        of a side to those that belong to them, or the rotation of the largest cosines.
    penalty_ : float
        The weight of the penalty that was chosen: infinity if the map is the start. It does not
        depend on the number of pairs.
    judgement_ : Judgement
        The starts and penalties that were tried, and their costs on held-out queries or pairs: 1 -
        average precision, or 1 - Spearman's correlation. Not set with ``judge=None``.
    loss_curve_ : list of float
        The loss and the penalty after each iteration of the last training; of mini-batches, the
        mean of an epoch. Empty if the map is the start.
    n_iter_ : int
        Number of these iterations.
    n_components_ : int
        Dimension of mapped points.
    mean_, mean_query_ : ndarray
        Zero: points are not centred.
    n_features_in_, preprocessor_
        As in every learner.

    Notes
    -----
    The objective is the loss plus ``penalty_ / sqrt(n_pairs)`` times the squared distance of the
    map from its start, since errors of the map decrease with the root of the number of pairs.
    Scores are judged by Spearman's correlation, pairs that belong together by the average precision
    of all points that belong to a query, among all points of the database. No query is in both
    training and held-out pairs; nor is, without scores, a point that belongs to a query. Fewer than
    32 pairs cannot be divided: nothing is learned from them.

    The start and the penalty are chosen on a sample of at most 10,000 pairs, fewer if they have
    many features. L-BFGS continues on all pairs from the map that was judged. Another map is
    trained from the start, on pairs that are not held out, if no map of the sample is better, or if
    L-BFGS on all pairs would take too many multiplications, such as on 10,000 pairs of 3,072
    features. It is judged on the sample like the others, and is used only if it is best: its name
    in `judgement_` ends in "more pairs".

    A point of length 0 has cosine 0 with all others. A pair of a point with itself keeps cosine 1
    under ``side="both"``. Without scores, such a pair is left out: a query that is equal to a point
    of the database does not find it, in training, in the choice and in `score`.

    References
    ----------
    Su. CoSENT: a more effective scheme for sentence embeddings than Sentence-BERT. 2022.
    Schönemann. A generalized solution of the orthogonal Procrustes problem. Psychometrika 1966.
    Kusupati et al. Matryoshka representation learning. NeurIPS 2022 (several `n_components`).

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast import AdapterLearner
    >>> rng = np.random.default_rng(0)
    >>> pairs = rng.normal(size=(600, 2, 20))
    >>> scores = (pairs[:, 0, :5] * pairs[:, 1, :5]).sum(axis=1)  # 5 features of 20 matter
    >>> learner = AdapterLearner(random_state=0).fit(pairs[:500], scores[:500])
    >>> bool(learner.score(pairs[500:], scores[500:]) > 0.8)
    True
    """

    side: Literal["both", "query", "database"] = "both"
    _: KW_ONLY
    n_components: PositiveIntegers | None = None  # type: ignore[assignment]
    rank: PositiveInt | None = None
    loss: Any = "auto"
    judge: JudgeParameter = "auto"
    warm_start: bool = False
    callbacks: Any = None
    preprocessor: Any = None
    verbose: Verbosity = False
    random_state: Seed = None
    n_jobs: NumberOfJobs = None

    _tuple_size = 2
    _remedy_for_points = "Give points of two sides as fit(queries, X_database=points)."

    @reports_to_sklearn
    def fit(
        self, pairs: Any, y: Any = None, X_database: Any = None, *,
        sample_weight: ArrayLike | None = None,
    ) -> AdapterLearner:  # fmt: skip
        """Learn the map.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features) or (n_pairs, 2)
            Pairs of a query and a point of the database, or of indicators for the preprocessor; or,
            with `X_database`, queries of shape (n_queries, n_features). Without `y`, each pair may
            be followed by hard negatives of its query: (n_pairs, 2 + n_negatives, n_features).
        y : array-like of shape (n_pairs,) or (n_queries, n_database), or sparse matrix, optional
            Scores, such as 0 to 5, or 1 and -1: greater for pairs that are more alike. Without,
            the points of each pair belong together, and points of different pairs do not. A matrix,
            with `X_database`, is above 0 where they belong together; grades count alike. Entries
            that a sparse matrix stores, but that are not above 0, are hard negatives of the query,
            such as documents that were shown and not clicked. So are numbers below 0.
        X_database : array-like of shape (n_database, n_features_database), optional
            The second points of pairs, in the rows of their queries; any points if `y` is a matrix.
            They may have other features than the queries, such as embeddings by another encoder,
            unless ``side="both"``.
        sample_weight : array-like of shape (n_pairs,), optional
            Weights of pairs; of queries if `y` is a matrix.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or parameter has a value that cannot be used. The learner is then not
            fitted. An interrupt (Ctrl-C) keeps the map of the last training as it is then.

        Warns
        -----
        UserWarning
            If points are left as they are, or `y` has different grades.
        """
        last = self._last_map()
        begin_fit(self)
        judge = as_judge(self.judge)
        if judge is not None:
            check_order_judge(judge)
        callbacks, path = as_callbacks(self.callbacks, warm_start=self.warm_start)
        with forget_on_error(self):
            given = load_pairs(self, pairs, y, X_database, sample_weight, reset=True)
            widths = given.queries.shape[1], given.database.shape[1]
            loss, sizes = self._loss(given), self._check_widths(*widths)
            self.n_components_ = max(sizes)
            self.embedding_ = self._embedding(self.n_components_)
            self.mean_ = np.zeros(widths[1], given.queries.dtype)
            if X_database is not None:
                self.mean_query_ = np.zeros(widths[0], given.queries.dtype)
            starts = self._starts(given, last)
            rng, checkpoint = check_random_state(self.random_state), None
            if path is not None:
                checkpoint = CheckpointFile(path, given, *params_of(self, LBFGS(), ""))
                rng = checkpoint.generator(self.random_state)
            if self._fit_task is not None:
                self._fit_task.begin("iteration", None)
            AdapterTraining(self, loss, starts, sizes, callbacks, checkpoint).run(given, judge, rng)
            if not self.parameters_[0].any():
                raise ValueError(
                    "pairs must hold points that are not 0 on both sides, to be mapped."
                )
        if judge is not None and self.start_ in ("identity", "features", "projection"):
            self.judgement_.warn()
        return self

    def _set_fitted(self, objective: Objective, history: History, x: Vector, final: bool) -> None:
        """Set the fitted attributes for x: the result, or the current iteration."""
        self.parameters_, self.loss_curve_ = objective.learned(x), list(history.curve)
        self.n_iter_ = len(history.curve)

    def score(self, pairs: Any, y: Any = None, X_database: Any = None) -> float:  # type: ignore[override]
        """Judge how well cosines of mapped points rank pairs.

        Parameters
        ----------
        pairs, y, X_database
            As for `fit`.

        Returns
        -------
        float
            Spearman's correlation of cosines and scores. For pairs that belong together, the mean
            average precision of the points that belong to a query, among all second points of
            `pairs`, or `X_database`, except the query itself. Greater is better.
        """
        check_is_fitted(self, self._fitted)
        given = load_pairs(self, pairs, y, X_database, reset=False)
        sides = self._embed(given.queries), self._embed(given.database, "database")
        return float(np.clip(given.values(*sides).mean(), -1, 1))

    @property
    def _has_database(self) -> bool:
        """True, because the second points of pairs are the database."""
        return True

    def _check_widths(self, n_features: int, n_features_database: int) -> list[int]:
        """Return the dimensions of mapped points."""
        if self.side != "both":
            check_unused(self, ["n_components"], f"with side={self.side!r}, which keeps one side")
            return [n_features_database if self.side == "query" else n_features]
        if n_features != n_features_database:
            raise ValueError(
                f"side must be 'query' or 'database' for points of different features: found "
                f"{n_features} of queries, {n_features_database} of the database."
            )
        several = self.n_components if np.iterable(self.n_components) else [self.n_components]
        return [check_n_components(n_features, each) for each in several]

    def _loss(self, pairs: Pairs) -> BaseLoss:
        """Return the loss that fits the pairs."""
        scored, given = pairs.scores is not None, self.loss
        if isinstance(given, str) and given == "auto":
            if scored:
                # Gentler than the default scale, which suits embeddings in training.
                return CoSENT(5.0)
            return NTXent(0.07 if self.side == "both" else 0.03)  # one map moves cosines less
        if isinstance(given, CoSENT) if scored else getattr(given, "takes_tags", False):
            found: BaseLoss = clone(given, safe=False)
            return found
        fits = "CoSENT, for pairs with scores" if scored else "one with takes_tags, such as NTXent"
        raise ValueError(f"loss must be 'auto' or {fits}; found {given!r}.")

    def _embedding(self, n_components: int) -> Embedding:
        learned = Linear(n_components, normalize=True)
        if self.side == "both":
            return learned
        sides = {"query": Identity(True), "database": Identity(True), self.side: learned}
        return Asymmetric(**sides)

    def _last_map(self) -> Array | None:
        """Return the map to continue from."""
        if not (self.warm_start and hasattr(self, "parameters_")):
            return None
        check_unused(self, ["rank"], "with warm_start=True, which adds up the changes of all fits")
        found: Array = self.parameters_[0]
        return found

    def _starts(self, pairs: Pairs, last: Array | None) -> list[tuple[str, Start]]:
        """Return the maps to start from, first the one that leaves points, or the map, as is."""
        widths = pairs.queries.shape[1], pairs.database.shape[1]
        unchanged: list[tuple[str, Start]] = []
        if widths[0] == widths[1]:
            name = "identity" if self.n_components_ == widths[0] else "features"
            unchanged = [(name, partial(identity, self.n_components_))]
        if last is not None:
            shape = self.n_components_, widths[1 if self.side == "database" else 0]
            check_warm_start([last], [shape])
            return [(LAST, partial(stay, last)), *unchanged]
        if self.n_components is not None:
            return [*unchanged, ("projection", partial(projection, self.n_components_))]
        if self.side == "both":
            return unchanged
        return unchanged + one_sided(self.side, bool(unchanged), self.rank)
