"""Strategies for the values of arguments, by name, and for invalid values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from metricfast import LMNN, NCA, RCA_Supervised, embeddings, losses, samplers

from .values import (
    CLASS_DTYPES,
    CLASSES,
    DAMAGED,
    DTYPES,
    FAIR,
    FORMS,
    JUNK,
    POISON,
    SPARSE,
    Array,
    Made,
)  # fmt: skip

Strategy = st.SearchStrategy[Any]
SEEDS = st.integers(0, 2**16)
# Numbers of features; searches with 8-bit bounds need twenty.
NARROW = (3, 3, 2, 1, 5, 0)
WIDE = (*NARROW, 12, 20, 21, 33)


class World(NamedTuple):
    """Properties that the arguments of one call share."""

    n: int  # number of points or queries
    m: int  # number of database points
    d: int  # number of features
    p: int  # number of components
    r: int  # number of tuples
    own: bool  # whether the points are their own database
    maps: str  # the given maps: "", "L", "UV" or "M"


Factory = Callable[[World], Strategy]


class Role(NamedTuple):
    """How an argument is drawn, whether the call needs it, and whether it may be invalid."""

    draw: Factory
    required: bool = True
    may_be_spoilt: bool = True


@cache
@st.composite
def worlds(draw: Any, widths: tuple[int, ...] = NARROW) -> World:
    n, m = (draw(st.sampled_from((12, 12, 12, 9, 20, 6, 3, 2, 1, 0))) for _ in range(2))
    own, d = draw(st.booleans()), draw(st.sampled_from(widths))
    return World(
        n=n,
        m=n if own else m,
        d=d,
        p=draw(st.sampled_from((2, 2, 1, 3) if d < 12 else (2, 12, d))),
        r=draw(st.sampled_from((10, 10, 20, 3, 1, 0))),
        own=own,
        maps=draw(st.sampled_from(("", "", "L", "L", "UV", "M"))),
    )


@cache  # Hypothesis analyses a strategy once, which is slower than drawing from it
def array(
    *shape: int, values: Any = FAIR, dtype: Any = DTYPES, form: Any = FORMS
) -> st.SearchStrategy[Array]:
    parts = (st.sampled_from(part) for part in (values, dtype, form))
    return st.builds(Array, st.just(shape), *parts, SEEDS, st.none())


def classes(n: int) -> Strategy:
    return array(n, values=CLASSES, dtype=CLASS_DTYPES)


def numbers(n: int) -> Strategy:
    return array(n) | array(n, 2)


def indices(*shape: int, below: int) -> Strategy:
    dtypes = ("int64", "int64", "int32", "uint64")
    return array(*shape, values=(f"below {below}",), dtype=dtypes)


@cache
def filters(n: int, m: int) -> Strategy:
    """Draw a mask of m database points, indices, or labels of n queries and of the points."""
    mask = array(m, values=("normal", "normal", "zero", "one class"), dtype=("bool",))
    some = [indices(size, below=m) for size in (0, 3, 8)]
    labels = st.fixed_dictionaries({"of_queries": classes(n), "of_database": classes(m)})
    tuples = labels.map(lambda sides: Made(sides_of, sides))
    return st.one_of(st.none(), mask, mask, *some, tuples, tuples)


def sides_of(of_queries: Any, of_database: Any) -> tuple[Any, Any]:
    return of_queries, of_database


def points(n: int, d: int) -> Strategy:
    return array(n, d, form=(*FORMS, *FORMS, *SPARSE))


def of_database(draw: Factory) -> Factory:
    return lambda w: st.none() if w.own else draw(w)


def if_maps(maps: str, draw: Factory) -> Factory:
    return lambda w: draw(w) if w.maps == maps else st.none()


def one_of(*values: Any) -> Factory:
    strategy = st.sampled_from(values)
    return lambda _: strategy


def weights(n: int) -> Strategy:
    return array(n, values=("weights", "weights", "zero", "lattice"), dtype=DTYPES)


def made(module: Any, *leave_out: str, **arguments: Any) -> Factory:
    makers = [getattr(module, name) for name in module.__all__ if name not in leave_out]
    known = [
        Made(make, {k: v for k, v in arguments.items() if k in inspect.signature(make).parameters})
        for make in makers
    ]
    strategy = st.sampled_from(known)
    return lambda _: strategy


_embedding = made(embeddings, "Embedding", "Asymmetric", n_components=2, hidden_layer_sizes=(4,))
_learners = (
    Made(NCA, {"max_iter": 3}),
    Made(LMNN, {"max_iter": 3, "n_neighbors": 1}),
    Made(RCA_Supervised, {}),
)
ROLES: dict[str, Factory] = {
    **dict.fromkeys(("X", "Z", "queries", "before", "after"), lambda w: array(w.n, w.d)),
    **dict.fromkeys(
        ("Y", "database", "X_database", "Z_database"), of_database(lambda w: array(w.m, w.d))
    ),
    **dict.fromkeys(("y", "labels", "query_labels"), lambda w: classes(w.n)),
    "y_database": of_database(lambda w: classes(w.m)),
    "database_labels": lambda w: classes(w.m),
    "partial_labels": lambda w: array(w.n, values=("classes",), dtype=("int64", "int8", "float64")),
    "L": if_maps("L", lambda w: array(w.p, w.d)),
    "U": if_maps("UV", lambda w: array(w.p, w.d)),
    "V": if_maps("UV", lambda w: array(w.p, w.d)),
    "M": if_maps("M", lambda w: array(w.d, w.d)),
    "exclude": lambda w: indices(w.n, below=w.m),
    "where": lambda w: filters(w.n, w.m),
    "out": lambda w: array(w.n, w.m, values=("zero",), dtype=("float64", "float32"), form=("C",)),
    "sample_weight": lambda w: weights(w.n),
    "bounds": one_of(None, [0.5, 2.0], (1, 3), [0, 0]),
    "n_neighbors": lambda w: st.integers(1, max(1, min(w.n, w.m) - 1)),
    "n_jobs": one_of(None, 1, 2, -1),
    "random_state": one_of(0, 1),
    "k": one_of(1, 2, 3),
    "n_components": lambda w: st.sampled_from((None, w.p)),
    "max_iter": one_of(1, 2, 5),
    "min_iter": one_of(1, 2),
    "max_proj": one_of(1, 20),
    "max_epochs": one_of(1, 2),
    "output_iter": one_of(1, 2),
    "n_basis": one_of(None, 5, 20),
    "n_chunks": one_of(1, 3),
    "n_constraints": one_of(None, 1, 10),
    "batch_size": one_of(None, 1, 4, 8),
    "hidden_layer_sizes": one_of((), (4,), (4, 3), [5]),
    "shrinkage": one_of(None, 0.0, 0.1, "auto"),
    "init": lambda w: array(w.p, w.d) | st.just("auto") | array(w.d, w.d),
    "prior": lambda w: array(w.d, w.d) | st.sampled_from(("identity", "covariance", "random")),
    "basis": lambda w: array(5, w.d) | st.sampled_from(("triplet_diffs", "lda")),
    "loss_matrix": one_of(None),
    "label_distance": one_of("sqeuclidean", "euclidean", "cityblock"),
    "calibration_params": one_of(None, {"strategy": "f_beta", "beta": 2.0}, {"min_rate": 0.5}),
    "loss": made(losses, "Compiled", n_neighbors=1),
    "embedding": _embedding,
    "query": _embedding,
    "sampler": made(samplers, "Batch", "Sampler", n_neighbors=2, batch_size=8),
    "learner": one_of(*_learners),
    "estimator": one_of(*_learners),
    "titles": one_of(("a", "b")),
    "folds": one_of(2, 3),
    "y_valid": lambda w: array(w.r, values=("signs",), dtype=("int64", "float64", "int8")),
    "pairs_valid": lambda w: array(w.r, 2, w.d),
    **{
        name: lambda w, size=size: array(w.r, size, w.d)
        for name, size in (("pairs", 2), ("triplets", 3), ("quadruplets", 4))
    },
}
# Counts whose running time grows with them, so huge values would run forever.
COUNTS = re.compile(r"max_|n_chunks|n_basis|n_constraints|output_iter|hidden|chunk_size|n_bins")
_NAMED = re.compile(r"\{([^{}]*)\}")


def roles_of(function: Callable[..., Any], **given: Factory) -> dict[str, Role]:
    """Return the role of each parameter of a function or a class."""
    roles = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name == "self" or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        default = parameter.default
        draw = given.get(name) or ROLES.get(name) or _by_default(function, name, default)
        roles[name] = Role(draw, default is inspect.Parameter.empty)
    return roles


def _by_default(function: Callable[..., Any], name: str, default: Any) -> Factory:
    words = _words(function, name)
    if words:
        return one_of(default, *words)
    if isinstance(default, bool):
        return one_of(True, False)
    if isinstance(default, int):
        return one_of(default, 1, 2, 3)
    if isinstance(default, float):
        return one_of(default, default / 2, 2 * default, 0.1, 1.0)
    return one_of(None if default is inspect.Parameter.empty else default)


def _words(function: Callable[..., Any], name: str) -> list[str]:
    """Return the strings that the docstring lists for a parameter."""
    line = re.search(
        rf"^\s*(?:\w+, )*{name}(?:, \w+)* : (.*)", function.__doc__ or "", re.MULTILINE
    )
    braces = _NAMED.search(line[1]) if line else None
    return re.findall(r'"(\w+)"', braces[1]) if braces else []


@st.composite
def spoilt(draw: Any, name: str, value: Any) -> Any:
    """Replace an argument by an invalid value."""
    junk = [j for j in JUNK if not (COUNTS.match(name) and isinstance(j, int) and abs(j) > 9)]
    if isinstance(value, Made) and draw(st.booleans()):
        arrays = [key for key, part in value.arguments.items() if isinstance(part, Array)]
        if arrays:
            key = draw(st.sampled_from(arrays))
            part = draw(spoilt(name, value.arguments[key]))
            return value._replace(arguments=value.arguments | {key: part})
    if not isinstance(value, Array) or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(junk))
    kinds = ("shape", "poison", "poison", "values", *(["sparse"] if len(value.shape) == 2 else []))
    kind = draw(st.sampled_from(kinds))
    if kind == "shape":
        return value._replace(shape=draw(st.sampled_from(_other_shapes(value.shape))))
    if kind == "sparse":
        form = draw(st.sampled_from((*SPARSE, *DAMAGED)))
        poison = form if form in DAMAGED else None
        return value._replace(form=form, values="normal", dtype="float64", poison=poison)
    if kind == "values":
        return value._replace(
            values=draw(st.sampled_from(FAIR)), dtype=draw(st.sampled_from(DTYPES))
        )
    return value._replace(poison=draw(st.sampled_from(POISON)))


def _other_shapes(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    around = [
        (*shape[:i], size, *shape[i + 1 :])
        for i in range(len(shape))
        for size in (0, 1, max(shape[i] - 1, 0), shape[i] + 1)
    ]
    return [*around, (), shape[:-1], (*shape, 1), (*shape, 2), (1, *shape), (int(np.prod(shape)),)]
