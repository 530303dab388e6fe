"""Save and load learned maps as safetensors files, which C++ and C programs read too.

A model file holds arrays and JSON only: loading one never runs code. `skops` saves all other
estimators, and :func:`trusted_types` names the types that it may load.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import pkgutil
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import metricfast
from metricfast._checked_model import check_model
from metricfast._core.files import read_tensors, write_tensors
from metricfast._core.preprocessors import check_preprocessor
from metricfast._saved_steps import SCALER, build_pipeline, build_scaler
from metricfast.onnx import to_onnx
from metricfast.training.callbacks import Checkpoint

__all__ = ["load", "load_metadata", "save", "to_onnx", "trusted_types"]

FORMAT = "metricfast"
_OWN_METADATA = {"checksum", "format", "format_version", "learner", "state"}
STORED_DTYPES = {"bool", "float16", "float32", "float64"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
# Storage types of text and dates.
_UNITS = {"U": "<u4", "S": "u1", "m": "<i8", "M": "<i8"}

_SKOPS = "skops.io.dump(estimator, path) saves any estimator, see metricfast.io.trusted_types."
# Modules with the types of fitted estimators and of their attributes.
_WITH_TYPES = (
    "_labels", "distances.database", "embeddings", "learners", "losses", "predictors", "samplers",
    "training.history", "training.solvers", "training.stopping",
)  # fmt: skip

# Errors from building a learner of wrong JSON.
_BAD_STATE = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError
)  # fmt: skip


def save(
    estimator: BaseEstimator,
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Save a fitted learner of metricfast, or a pipeline with one, to a safetensors file.

    The file appears under its name only when it is complete. If saving fails, an older model stays.
    A new file takes over the mode of the older one.

    Parameters
    ----------
    estimator : fitted estimator
        A fitted learner, or a pipeline of `StandardScaler` steps and a learner. A
        `KernelizedMetricLearner` has no map that a file can hold. Parameters and fitted attributes
        must be None, booleans, numbers, strings, arrays of these, of bytes or of
        `numpy.datetime64`, losses, embeddings, samplers, solvers and stopping rules of metricfast,
        or lists, tuples and dictionaries of these. Checkpoints, and settings of `set_output` and
        `set_fit_request`, are not saved.
    path : str or path-like
        The file to write, by custom with the suffix ``.safetensors``.
    metadata : dict of str to str, optional
        Texts to store in the file with the model, which :func:`load_metadata` returns: how
        its points were made, or a date.

    Raises
    ------
    TypeError
        If `estimator` is none of these, has another step, or holds something that is not data: a
        function as `preprocessor`, `callbacks`, or a `RandomState`. The message names it. Save
        other estimators by skops, see :func:`trusted_types`.
    sklearn.exceptions.NotFittedError
        If `estimator` is not fitted.
    ImportError
        If the package safetensors is missing.

    Examples
    --------
    >>> import metricfast
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metricfast.save(metricfast.NCA(n_components=2, tol=1e-3).fit(X, y), "iris.safetensors")
    >>> metricfast.load("iris.safetensors").transform(X).shape
    (150, 2)
    """
    kept = _checked_metadata({} if metadata is None else metadata)
    name = type(estimator).__name__
    tensors: dict[str, np.ndarray] = {}
    if isinstance(estimator, Pipeline):
        state = {"steps": _steps_state(estimator.steps, tensors)}
    elif _learners().get(name) is type(estimator):
        check_is_fitted(estimator)
        state = _state(estimator, "", tensors)
    else:
        a_database = isinstance(estimator, metricfast.Database)
        remedy = "Save a Database by its own method, database.save(path)." if a_database else _SKOPS
        raise TypeError(
            "estimator must be a learner of metricfast with a map, or a pipeline of StandardScaler "
            f"and a learner, got {type(estimator)!r}. {remedy}"
        )
    described = json.dumps(state, allow_nan=False)
    own = {"format": FORMAT, "learner": name, "state": described}
    write_tensors(_as_path(path), {**own, **kept}, tensors)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a learner or a pipeline that `save` wrote.

    Only learners of metricfast and `StandardScaler` are built, from arrays and JSON: no code in the
    file runs.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    estimator : fitted estimator
        The fitted estimator, with the parameters, fitted attributes and dtypes that were saved.
        Arrays come back contiguous, in the order that they had, and in native byte order, NumPy
        scalars as Python ones.

    Raises
    ------
    ValueError
        If the file is damaged, or is no complete model of metricfast. The message names the path
        and what is wrong.
    OSError
        If the file cannot be read.
    ImportError
        If the package safetensors is missing.

    Examples
    --------
    >>> import metricfast
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metricfast.save(metricfast.LMNN(n_neighbors=5).fit(X, y), "iris.safetensors")
    >>> metricfast.load("iris.safetensors").n_neighbors
    5
    """
    metadata, tensors = read_tensors(_as_path(path), FORMAT, "a model")
    name = metadata.get("learner", "")
    learner = _learners().get(name)
    if learner is None and name != "Pipeline":
        raise ValueError(f"{path} holds a {name!r}, which this metricfast does not have")
    try:
        state = json.loads(metadata["state"])
        if learner is None:
            return build_pipeline(
                [(name, _build_step(step, tensors)) for name, step in state["steps"]]
            )
        return _checked(_build(learner, state, tensors))
    except _BAD_STATE as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} does not describe a {name}: {what}") from error


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the texts that `save` stored with a model.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    dict of str to str

    Raises
    ------
    ValueError, OSError, ImportError
        As :func:`load`.

    Examples
    --------
    >>> import metricfast
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metricfast.save(metricfast.LFDA().fit(X, y), "lfda.safetensors", metadata={"unit": "cm"})
    >>> metricfast.io.load_metadata("lfda.safetensors")
    {'unit': 'cm'}
    """
    metadata, _ = read_tensors(_as_path(path), FORMAT, "a model")
    return {key: text for key, text in metadata.items() if key not in _OWN_METADATA}


def trusted_types() -> list[str]:
    """Return the names of this package's types, for loading estimators that skops saved.

    `skops <https://skops.readthedocs.io>`_ saves whole estimators and pipelines without pickle:
    nearest-neighbour estimators with their points, `NCAClassifier`, kernelized learners, and steps
    of scikit-learn. It loads types of other packages only if you trust them by name.

    Returns
    -------
    list of str
        Full names of classes. A `losses.Compiled` holds addresses of code, and is not one of them.

    Examples
    --------
    >>> import metricfast
    >>> import skops.io
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = metricfast.KNeighborsClassifier(3, metric=metricfast.LFDA()).fit(X, y)
    >>> skops.io.dump(model, "iris.skops")
    >>> again = skops.io.load("iris.skops", trusted=metricfast.io.trusted_types())
    >>> again.predict(X[:2])
    array([0, 0])
    """
    modules = [each.name for each in pkgutil.walk_packages(metricfast.__path__, "metricfast.")]
    prefixes = tuple(f"metricfast.{name}" for name in _WITH_TYPES)
    found = {
        f"{name}.{kind.__qualname__}"
        for name in modules
        if name.startswith(prefixes)
        for kind in vars(importlib.import_module(name)).values()
        if isinstance(kind, type) and kind.__module__ == name
    }
    return sorted(found - {"metricfast.losses._compiled.Compiled"})


def _checked_metadata(given: Mapping[str, str]) -> dict[str, str]:
    texts = isinstance(given, Mapping) and all(
        isinstance(part, str) for item in given.items() for part in item
    )
    if not texts:
        raise TypeError(f"metadata must be a dictionary of texts, got {given!r}.")
    if any(re.search("[\ud800-\udfff]", text) for item in given.items() for text in item):
        raise ValueError(f"metadata must not have surrogates, which no file holds: {given!r}.")
    taken = sorted(_OWN_METADATA & set(given))
    if taken:
        raise ValueError(f"metadata must not have {taken[0]!r}, which is that of the model.")
    return dict(given)


def _as_path(path: object) -> Path:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be text or a path, got {path!r}.")
    return Path(path)


def _learners() -> dict[str, type[BaseEstimator]]:
    """Return the learners that have a map."""
    names = set(metricfast.learners.__all__) - {"FixedDatabase", "KernelizedMetricLearner"}
    return {name: getattr(metricfast, name) for name in names}


def _choices() -> dict[str, type[BaseEstimator]]:
    """Return the classes of objects that parameters may be, such as losses and solvers."""
    found = {}
    for area in ("embeddings", "losses", "samplers", "solvers", "stopping"):
        module = getattr(metricfast, area)
        for name in module.__all__:
            choice = getattr(module, name)
            if isinstance(choice, type) and issubclass(choice, BaseEstimator):
                found[f"{area}.{name}"] = choice
    return found


def _checked(estimator: BaseEstimator) -> BaseEstimator:
    """Return an estimator, whose fitted attributes are what `fit` could have set."""
    check_model(estimator)
    return estimator


def _build(
    learner: type[BaseEstimator], state: dict[str, Any], tensors: dict[str, np.ndarray]
) -> BaseEstimator:
    given = state["params"].items()
    estimator = learner(**{key: _decode(value, tensors) for key, value in given})
    for key, value in state["fitted"].items():
        if not _is_fitted_name(estimator, key):
            raise ValueError(f"{key!r} is no fitted attribute")
        setattr(estimator, key, _decode(value, tensors))
    if hasattr(estimator, "preprocessor") and state["fitted"]:
        estimator.preprocessor_ = check_preprocessor(estimator.preprocessor)
    return estimator


def _steps_state(steps: list[tuple[str, Any]], tensors: dict[str, np.ndarray]) -> list[Any]:
    """Return steps of a pipeline as JSON, each with its name and its class."""
    states: list[Any] = []
    for i, (name, step) in enumerate(steps):
        last = i == len(steps) - 1
        what = type(step).__name__
        if not (_learners().get(what) is type(step) if last else type(step) is StandardScaler):
            raise TypeError(
                f"the step {name!r} of the pipeline is {step!r}. A model file holds StandardScaler "
                f"and, at the end, a learner with a map. {_SKOPS}"
            )
        check_is_fitted(step)
        state = _state(step, f"steps.{i}.", tensors)
        states.append([name, {"class": what if last else SCALER, **state}])
    return states


def _build_step(state: dict[str, Any], tensors: dict[str, np.ndarray]) -> Any:
    if state["class"] != SCALER:
        return _checked(_build(_learners()[state["class"]], state, tensors))
    params, fitted = (
        {key: _decode(value, tensors) for key, value in state[part].items()}
        for part in ("params", "fitted")
    )
    return build_scaler(params, fitted)


def _state(estimator: BaseEstimator, prefix: str, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the parameters and fitted attributes as JSON; arrays go to `tensors`."""
    name = type(estimator).__name__
    params = estimator.get_params(deep=False)
    return {
        "params": {
            key: _encode(
                None if key == "callbacks" and _only_checkpoints(value) else value,
                f"{prefix}params.{key}",
                f"{name}: parameter {key!r}",
                tensors,
            )
            for key, value in params.items()
        },
        "fitted": {
            key: _encode(
                getattr(estimator, key),
                f"{prefix}{key}",
                f"{name}: fitted attribute {key!r}",
                tensors,
            )
            for key in vars(estimator)
            if _is_fitted_name(estimator, key)
        },
    }


def _only_checkpoints(callbacks: Any) -> bool:
    """Return whether all callbacks are checkpoints, which are no part of a model."""
    return isinstance(callbacks, (list, tuple)) and all(
        isinstance(each, Checkpoint) for each in callbacks
    )


def _is_fitted_name(estimator: BaseEstimator, name: str) -> bool:
    # preprocessor_ is made again from the parameter it comes from
    return name.endswith("_") and not name.startswith("_") and name != "preprocessor_"


def _encode(value: Any, key: str, what: str, tensors: dict[str, np.ndarray]) -> Any:
    """Return `value` as JSON; arrays go to `tensors` under `key`, which the JSON then refers to."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.name in STORED_DTYPES:
        return _store(value, key, tensors)
    if isinstance(value, np.ndarray) and value.dtype.kind in "USmM" and value.itemsize:
        # As integers, so that a file holds as many bytes as it takes to build the array.
        native = value.astype(value.dtype.newbyteorder("<"), order="C")
        whole = native.reshape(-1, 1).view(_UNITS[value.dtype.kind])
        stored = _store(whole, key, tensors)
        return {"view": [stored["tensor"], native.dtype.str, value.shape]}
    if isinstance(value, np.ndarray) and value.dtype == object:
        plain = (str, int, float, np.generic, type(None))
        if not all(isinstance(item, plain) for item in value.flat):
            kinds = sorted({type(item).__name__ for item in value.flat})
            raise TypeError(
                f"{what} cannot be stored in a model file: it is an array of Python objects of "
                f"type {', '.join(kinds)}. Make it one of numbers, text or numpy.datetime64."
            )
        items = [_encode(item, key, what, tensors) for item in value.flat]
        return {"objects": items, "shape": value.shape}
    if type(value) in (list, tuple):
        items = [_encode(item, f"{key}.{i}", what, tensors) for i, item in enumerate(value)]
        return {type(value).__name__: items}
    if type(value) is dict and all(isinstance(name, str) for name in value):
        return {"dict": {k: _encode(v, f"{key}.{k}", what, tensors) for k, v in value.items()}}
    for name, choice in _choices().items():
        if type(value) is choice:
            params = value.get_params(deep=False)
            chosen = {k: _encode(v, f"{key}.{k}", what, tensors) for k, v in params.items()}
            return {"choice": [name, chosen]}
    raise TypeError(f"{what} cannot be stored in a model file: {type(value)!r} is not plain data")


def _store(value: np.ndarray, key: str, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    tensors[key] = np.asarray(value, dtype=value.dtype.newbyteorder("<"), order="C")
    # Sums in another order round otherwise.
    columns_first = value.flags.f_contiguous and not value.flags.c_contiguous
    return {"tensor": key, "order": "F"} if columns_first else {"tensor": key}


def _decode(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return np.asarray(_take(value["tensor"], tensors), order=value.get("order", "C"))
    if "objects" in value:
        objects = np.empty(len(value["objects"]), object)
        objects[:] = [_decode(item, tensors) for item in value["objects"]]
        return objects.reshape(value["shape"])
    ((kind, content),) = value.items()
    if kind == "view":
        key, dtype, shape = content
        return _viewed(_take(key, tensors), dtype).reshape(shape)
    if kind == "float":
        return float(content)
    if kind == "dict":
        return {key: _decode(item, tensors) for key, item in content.items()}
    if kind == "choice":
        name, params = content
        return _choices()[name](**{key: _decode(item, tensors) for key, item in params.items()})
    items = [_decode(item, tensors) for item in content]
    return {"list": list, "tuple": tuple}[kind](items)


def _take(key: str, tensors: dict[str, np.ndarray]) -> np.ndarray:
    """Remove and return an array.

    A small file that refers to one array again and again would fill memory with copies.
    """
    if key not in tensors:
        raise ValueError(f"the array {key!r} is missing, or the file refers to it twice")
    return tensors.pop(key)


def _viewed(stored: np.ndarray, name: str) -> np.ndarray:
    if not re.fullmatch(r"[<|][USmM]\d+(\[\w+\])?", name):
        raise ValueError(f"{name!r} is no type of text or dates")
    found = stored.view(name)
    if found.dtype.kind == "U" and stored.view(_UNITS["U"]).max(initial=0) > sys.maxunicode:
        raise ValueError("text must hold characters of Unicode only")
    return found
