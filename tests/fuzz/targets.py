"""The table of targets: every public function, class and method, by name."""

from __future__ import annotations

import inspect
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from reference_losses import NAMES

import metricfast as mf
from metricfast import (
    LFDA,
    constraints,
    embeddings,
    inference,
    learners,
    losses,
    metrics,
    neighbors,
    samplers,
)
from metricfast._core import thresholds
from metricfast.plotting import plot_before_after

from . import files, loss_oracles, oracles
from .arguments import (
    NARROW,
    WIDE,
    Factory,
    Role,
    array,
    classes,
    indices,
    numbers,
    one_of,
    points,
    roles_of,
    weights,
)  # fmt: skip
from .values import Made

Oracle = Callable[[dict[str, Any], Any], str | None]
CONTINUOUS = ("MLKR", "NeighborhoodGerrymanderingRegressor", "LogRatioLearner")
METHODS = (
    *("transform", "predict", "predict_proba", "score", "partial_fit", "kneighbors"),
    *("pair_distance", "pair_score", "score_pairs", "predict_pairs", "decision_function"),
    *("calibrate_threshold", "set_threshold", "feature_relevance"),
)
# Words that an error message may contain instead of an argument's name.
_COMMON_WORDS = (
    "x y class classes classes_ label labels point points query sample samples tuples pairs "
    "triplets quadruplets feature features vector path seed semidefinite bases calibration_params "
    "loss_matrix"
)


@dataclass(frozen=True)
class Target:
    """A function, class or method to call.

    `words` may appear in clear errors. `may_hold` lists "nan" and "inf" if a result may hold them.
    `written` names output arguments, `unread` arguments that a call may ignore, and `incomplete`
    arguments with missing values. `widths` are numbers of features. `turns` is the frequency of
    calls, relative to other targets.
    """

    name: str
    call: Callable[..., Any]
    roles: dict[str, Role]
    oracle: Oracle | None = None
    may_hold: str = ""
    written: tuple[str, ...] = ("out",)
    unread: tuple[str, ...] = ()
    incomplete: tuple[str, ...] = ()
    widths: tuple[int, ...] = NARROW
    turns: int = 1
    words: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        words = {*_COMMON_WORDS.split(), *self.roles, *self.name.split(".")}
        object.__setattr__(self, "words", frozenset(map(str.lower, words)))


def method(
    owner: type, name: str, oracle: Oracle | None = None, prefix: str = "", **given: Factory
) -> Target:
    """Build an object from its class's arguments, and call a method with the method's arguments."""
    made = roles_of(owner, **given)
    called = roles_of(getattr(owner, name), **given)

    def call(**arguments: Any) -> Any:
        maker = owner(**{k: arguments.pop(k) for k in made if k in arguments})
        return getattr(maker, name)(**arguments)

    shown = f"{prefix}{owner.__name__}" + ("" if name == "__call__" else f".{name}")
    return Target(shown, call, made | called, oracle)


def of_functions() -> list[Target]:
    of_labels: dict[str, Factory] = {
        "database_labels": lambda w: st.none() if w.own else classes(w.m),
        "label_distance": one_of("euclidean", "cityblock"),
        "metrics": one_of(None, "map_at_r", "spearman", ["recall_at_k"], "all"),
    }
    index_pairs: dict[str, Factory] = {"pairs": lambda w: indices(w.r, 2, below=w.n)}
    sides: dict[str, Factory] = {
        "constraints": lambda w: st.tuples(*(indices(w.r, below=w.n) for _ in range(4)))
    }
    gradient_weights: dict[str, Factory] = {
        "weights": lambda w: points(w.n, w.m) | array(w.n, w.m, values=("lattice", "zero"))
    }
    costs: dict[str, Factory] = {"matrix": lambda w: array(w.p, w.p, values=("zero",))}
    votes: dict[str, Factory] = {
        "database": lambda w: st.none() if w.own or w.maps == "M" else array(w.m, w.d),
        "metric": lambda w: st.just("sqeuclidean"),
    }
    table = [
        (mf.pairwise_distances, oracles.pairwise, {}),
        (mf.paired_distances, oracles.paired, index_pairs),
        (mf.kneighbors, oracles.neighbors, {}),
        (
            mf.neighbors.kneighbors_per_class,
            oracles.neighbors_per_class,
            {"labels": lambda w: classes(w.m)},
        ),
        (mf.neighbors.radius_neighbors, oracles.within, {"radius": one_of(0, 0.5, 1.0, 2.0, 1e3)}),
        (mf.metric_gradient, oracles.gradient, gradient_weights),
        (inference.targeted, oracles.targeted, votes),
        (inference.loss_augmented, oracles.augmented, votes),
        (inference.both, oracles.both, votes),
        (inference.check_loss_matrix, None, costs),
        (metrics.label_disjoint_folds, None, {}),
        (metrics.cross_validate_retrieval, None, {"metrics": of_labels["metrics"]}),
        (metrics.retrieval_report, None, of_labels),
        (constraints.wrap_pairs, None, sides),
        (constraints.wrap_indices, None, sides),
        (plot_before_after, None, {}),
        (thresholds.check_calibration, None, {}),
        (thresholds.check_calibration_params, None, {"params": one_of(None, {"beta": 1.0})}),
    ]
    found = [
        Target(f.__name__, f, roles_of(f, **given), oracle, _MAY_HOLD.get(f, ""),
               widths=WIDE if f in _SEARCHES else NARROW)
        for f, oracle, given in table
    ]  # fmt: skip
    search = roles_of(metrics.retrieval_report, **of_labels)
    for name in ("metrics", "k", "confidence", "baselines", "verbose"):
        del search[name]
    for name in metrics.__all__:
        function = getattr(metrics, name)
        if name not in _NO_METRICS:
            roles = roles_of(function, **of_labels) | search
            # Other tests check the probabilities of draws.
            oracle = None if name == "cmc_at_k" else oracles.retrieval(name)
            found.append(Target(f"metrics.{name}", function, roles, oracle, "nan inf"))
    return found


_NO_METRICS = (
    *("CrossValidation", "PairReport", "RetrievalReport", "Score", "VerificationReport"),
    *("cross_validate_retrieval", "label_disjoint_folds", "retrieval_report", "retrieval_scorer"),
    *("identification_report", "pair_report", "relevance_report", "verification_report"),
)
_SEARCHES = (mf.kneighbors, mf.neighbors.kneighbors_per_class, mf.neighbors.radius_neighbors)
# Functions with infinite results: for missing neighbours, sets or queries, or if squares overflow.
_INFINITE = (
    mf.pairwise_distances,
    mf.paired_distances,
    mf.kneighbors,
    mf.neighbors.kneighbors_per_class,
    mf.neighbors.radius_neighbors,
)
_MAY_HOLD: dict[Any, str] = dict.fromkeys(_INFINITE, "inf") | dict.fromkeys(
    (
        *(inference.targeted, inference.loss_augmented, inference.both),
        *(metrics.retrieval_report, metrics.cross_validate_retrieval),
    ),
    "nan inf",
)


def of_databases() -> list[Target]:
    def come_and_go(
        more: Any, ids: Any, queries: Any, n_neighbors: Any = 5, exclude: Any = None,
        where: Any = None, squared: Any = False, **made: Any,
    ) -> Any:  # fmt: skip
        database = mf.Database(**made)
        database.add(more)
        database.remove(ids)
        return database.kneighbors(
            queries, n_neighbors, exclude=exclude, where=where, squared=squared
        )

    # The search uses trees from 256 points on.
    large: dict[str, Factory] = {"X": lambda w: array(w.m, w.d) | array(300, w.d)}
    of_own = method(mf.Database, "kneighbors", oracles.of_database, **large)
    of_own = replace(of_own, may_hold="inf", widths=WIDE)
    changes = {
        "more": Role(lambda w: array(w.n, w.d)), "ids": Role(lambda w: indices(w.r, below=w.m))
    }  # fmt: skip
    return [of_own, replace(of_own, name="Database.remove", call=come_and_go,
                            roles=of_own.roles | changes)]  # fmt: skip


def of_losses() -> list[Target]:
    found = []
    for name in NAMES:
        loss = getattr(losses, name)
        draw = classes if loss.labels == "class" else numbers
        given: dict[str, Factory] = {
            "y": lambda w, draw=draw: draw(w.n),
            "y_database": lambda w, draw=draw: st.none() if w.own else draw(w.m),
            "targets": lambda w: indices(w.n, w.p, below=w.n),
        }
        if name == "MLKR":
            given |= {"y": lambda w: array(w.n), "y_database": lambda w: array(w.m)}
        found.append(method(loss, "__call__", loss_oracles.loss(name), "losses.", **given))
    of_targets: dict[str, Factory] = {
        "targets": lambda w: indices(w.n, 1, below=w.n), "max_candidates": one_of(1000, 1)
    }  # fmt: skip
    for name in ("find_targets", "find_impostors"):
        function = getattr(losses.LMNN, name)
        found.append(Target(f"losses.LMNN.{name}", function, roles_of(function, **of_targets)))
    return [*found, method(losses.Gerrymander, "weights", None, "losses.")]


def of_embeddings() -> list[Target]:
    found = []
    for name in ("Linear", "MLP", "Periodic"):
        embedding = getattr(embeddings, name)
        given: dict[str, Factory] = {"X": lambda w: points(w.n, w.d), "parameters": one_of(None)}
        made = roles_of(embedding, **given)
        found.append(method(embedding, "initialize", **given))
        for step in ("forward", "backward"):

            def call(embedding: Any = embedding, made: Any = made, step: str = step, **rest: Any):
                maker = embedding(**{k: rest.pop(k) for k in made if k in rest})
                points = np.random.default_rng(0).normal(size=(9, 3))
                parameters = maker.initialize(points, np.arange(9) % 3, 0)
                if rest.get("parameters") is None:
                    rest["parameters"] = parameters
                if step == "forward":
                    return maker.forward(**rest)[0]
                rest["cache"] = maker.forward(parameters, points)[1]
                return maker.backward(**rest)

            roles = made | roles_of(getattr(embedding, step), **given)
            roles.pop("cache", None)
            if step == "backward":
                roles["upstream"] = Role(lambda w: array(9, w.p))
            found.append(Target(f"{name}.{step}", call, roles, widths=(3,)))
    return found


def of_samplers() -> list[Target]:
    found = []
    for name in ("Uniform", "ClassBalanced", "DenseTriplet"):
        given: dict[str, Factory] = (
            {"y": lambda w: numbers(w.n)} if name == "DenseTriplet" else {}
        )  # fmt: skip
        prepare = method(getattr(samplers, name), "prepare", **given)

        def call(prepare: Target = prepare, **arguments: Any) -> Any:
            return list(prepare.call(**arguments)(np.random.RandomState(0)))

        found.append(Target(prepare.name, call, prepare.roles, oracles.epoch,
                            unread=("y",) if name == "Uniform" else ()))  # fmt: skip
    for name in ("chunks", "generate_knntriplets", "positive_negative_pairs"):
        found.append(method(mf.Constraints, name))
    return found


def _labels(learner: type) -> dict[str, Factory]:
    """Return strategies for a learner's labels, and for weights of its points."""
    size = getattr(learner, "_tuple_size", None)
    if isinstance(size, int):
        return {
            "y": (lambda w: array(w.r, values=("signs",), dtype=("int64", "float64", "int8")))
            if size == 2 else one_of(None),
            **dict.fromkeys(("sample_weight", "weights"), lambda w: weights(w.r)),
        }  # fmt: skip
    given: dict[str, Factory] = {"X": lambda w: points(w.n, w.d)}
    if learner.__name__ in CONTINUOUS:
        given["y"] = lambda w: array(w.n)
    given["chunks"] = lambda w: array(w.n, values=("classes",), dtype=("int64", "int8"))
    return given


# If the learner keeps the given distance, the chosen penalty or regularization is infinite.
INFINITE = ("AdapterLearner", "GMML_Supervised", "KISSME_Supervised", "XQDA")


def of_learners() -> list[Target]:
    found = []
    for name in learners.__all__:
        learner = getattr(learners, name)
        given = _labels(learner)
        made, called = roles_of(learner, **given), roles_of(learner.fit, **given)

        def fit(_learner: type = learner, _made: Any = made, **arguments: Any) -> Any:
            model = _learner(**{k: arguments.pop(k) for k in _made if k in arguments})
            model.fit(**arguments)
            X = arguments.get("X")
            return model if X is None or not hasattr(model, "transform") else (
                model, model.transform(X)
            )  # fmt: skip

        unread = ("weights", "y") if name == "Covariance" else ("weights",)
        chosen = "inf" * (name in INFINITE)
        found.append(Target(f"{name}.fit", fit, made | called, may_hold=chosen, unread=unread))
        for step in METHODS:
            if callable(getattr(learner, step, None)) and hasattr(fitted(learner), step):

                def call(_learner: type = learner, _step: str = step, **arguments: Any) -> Any:
                    return getattr(fitted(_learner), _step)(**arguments)

                roles = roles_of(getattr(learner, step), **given)
                skipped = unread if step == "partial_fit" else ()
                # Distances may overflow.
                distances = ("kneighbors", "pair_distance", "pair_score", "decision_function",
                             "score_pairs")  # fmt: skip
                holds = "inf" if step in distances else chosen
                found.append(Target(f"{name}.{step}", call, roles, may_hold=holds, widths=(3,),
                                    unread=skipped))  # fmt: skip
        found.append(Target(
            f"{name}.get_metric",
            lambda u, v, learner=learner: fitted(learner).get_metric()(u, v),
            dict.fromkeys("uv", Role(lambda w: array(w.d))), widths=(3,),
        ))  # fmt: skip
    return found


def of_predictors() -> list[Target]:
    """Return targets for predictors, each fitted to its points."""
    found = []
    for name in (*neighbors.__all__, "NCAClassifier", "NCARegressor"):
        owner = getattr(mf, name, None)
        if not hasattr(owner, "get_params"):
            continue
        given: dict[str, Factory] = {
            "metric": lambda w: array(w.p, w.d) | st.sampled_from(
                ("euclidean", "cosine", "manhattan", Made(LFDA, {}))),
            "y": lambda w, name=name: classes(w.n) if "Classifier" in name else array(w.n),
            "outlier_label": one_of(None, "most_frequent"),
            "radius": one_of(0.5, 2.0, 1e3),
        }  # fmt: skip
        made, called = roles_of(owner, **given), roles_of(owner.fit, **given)

        def call(_owner: type = owner, _made: Any = made, **arguments: Any) -> Any:
            model = _owner(**{k: arguments.pop(k) for k in _made if k in arguments})
            model.fit(**arguments)
            say = next(each for each in ("predict", "transform", "kneighbors")
                       if hasattr(model, each))  # fmt: skip
            return getattr(model, say)(arguments["X"])

        holds = "nan" if name == "RadiusNeighborsRegressor" else "inf"
        found.append(Target(f"{name}.fit", call, made | called, may_hold=holds, unread=("y",),
                            incomplete=("X",) * name.startswith("NCA")))  # fmt: skip
    among = roles_of(mf.compare, learners=one_of("RCA_Supervised", ["LFDA", "LMNN"]))
    among["learners"] = among["learners"]._replace(required=True)  # "auto" is slow
    return [*found, Target("compare", mf.compare, among)]


def fitted(learner: type) -> Any:
    """Return a learner, fitted to thirty fixed points."""
    return pickle.loads(_pickled(learner))


@cache
def _pickled(learner: type) -> bytes:
    quick = {"max_iter": 3, "max_epochs": 1, "n_basis": 20, "output_iter": 1, "random_state": 0}
    loss = losses.CoSENT() if learner is mf.AdapterLearner else losses.NCA()
    quick |= {"loss": loss, "learner": mf.NCA(max_iter=3)}
    known = inspect.signature(learner).parameters
    model = learner(**{name: value for name, value in quick.items() if name in known})
    rng, y = np.random.default_rng(0), np.arange(30) % 3
    size = getattr(learner, "_tuple_size", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(size, int):
            model.fit(rng.normal(size=(30, size, 3)), *([2 * (y > 0) - 1] if size == 2 else []))
        else:
            model.fit(rng.normal(size=(30, 3)), y)
    if hasattr(model, "set_threshold"):
        model.set_threshold(1.0)
    return pickle.dumps(model)


def of_files() -> list[Target]:
    """Return targets for saving and loading, including damaged files."""
    some = [getattr(learners, name) for name in ("NCA", "EmbeddingLearner", "ITML", "OASIS")]
    damage = Role(lambda _: files.damages(), may_be_spoilt=False)
    return [
        Target("io.save", lambda path, i=0: mf.save(fitted(some[i]), path), {
            "path": Role(one_of("model.safetensors", "a b.bin", "ü" * 110, "missing/file")),
            "i": Role(one_of(0, 1, 2, 3), False, may_be_spoilt=False),
        }),
        Target("io.load", mf.load, roles_of(mf.load, path=one_of("model", ".", "a/b"))),
        Target("io.round_trip", files.round_trip, {
            "X": Role(lambda w: points(w.n, w.d)), "y": Role(lambda w: classes(w.n)),
        }, oracles.same),
        *(
            Target(f"io.damaged.{learner.__name__}", lambda damage, learner=learner: (
                files.load_damaged(fitted(learner), damage)), {"damage": damage}, oracles.undamaged)
            for learner in some
        ),
        Target("checkpoint.damaged", files.resume_damaged, {"damage": damage}, oracles.same),
    ]  # fmt: skip


def every_target() -> dict[str, Target]:
    """Return all targets by name."""
    often = [replace(target, turns=5) for target in (
        *of_functions(), *of_databases(), *of_losses()
    )]  # fmt: skip
    others = (*of_embeddings(), *of_samplers(), *of_learners(), *of_predictors(), *of_files())
    return {target.name: target for target in (*often, *others)}


TARGETS = every_target()
