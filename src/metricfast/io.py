"""Model files: learned maps as safetensors, which C++ and C read, and whole estimators by skops.

A model file holds arrays and JSON only: loading one never runs code.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import metricfast
from metricfast._checked_model import MAP, NAMES, SCALER, check_map, check_scaler
from metricfast._core.checks import check_preprocessor
from metricfast._core.files import read_tensors, write_tensors
from metricfast._exports import LEARNERS
from metricfast.learners.base.bilinear import BilinearMixin
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.onnx import to_onnx

__all__ = ["load", "load_metadata", "save", "to_onnx", "trusted_types"]

FORMAT = "metricfast"
SCALER_NAME = "sklearn.StandardScaler"
_OWN_METADATA = {"checksum", "format", "format_version", "learner", "state"}
STORED_DTYPES = {"bool", "float16", "float32", "float64"} | {
    f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)
}
# Modules of classes, other than estimators, whose objects fitted estimators hold.
_PARTS = (
    *("_core.checks", "_core.scatter_statistics", "_core.wide_map", "comparison.encoding"),
    *("comparison.trial", "distances.database", "learners.auto", "training.span"),
    *("learners.gerrymandering.history", "learners.ldml", "predictors.metric"),
    *("predictors.multi_metric", "predictors.soft_votes"),
    *("predictors.tables", "predictors.targets", "selection._judge"),
    *("training.history", "training.preconditioner"),
)
# Errors that invalid JSON may raise when a learner is built.
_BAD_STATE = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError
)  # fmt: skip
_BY_SKOPS = "Save whole estimators by skops.io.dump."


def save(
    estimator: BaseEstimator,
    path: str | os.PathLike[str],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Save the learned map of a learner, or of a pipeline of scalers and a learner, to a file.

    The file has the format safetensors, and holds the parameters of the learner and its map, which
    C++ and C read too. It does not hold the points of the training, or its course. To save
    predictors, and learners that predict by their points, use skops: see :func:`trusted_types`.

    The file appears under its name only when it is complete. If saving fails, an older model stays.
    A new file takes over the mode of the older one.

    Parameters
    ----------
    estimator : fitted estimator
        A learner of metricfast other than a `KernelizedMetricLearner`, or a pipeline that ends in
        one. The other steps of the pipeline must be `StandardScaler`. Parameters of the learner
        must be None, booleans, numbers, strings, arrays of numbers, losses, embeddings, samplers,
        solvers and stopping rules of metricfast, or lists, tuples and dictionaries of these.
        `callbacks`, and settings of `set_output` and `set_fit_request`, are not saved.
    path : str or path-like
        The file to write, by custom with the suffix ``.safetensors``.
    metadata : dict of str to str, optional
        Texts to store in the file with the model, which :func:`load_metadata` returns: how
        its points were made, or a date.

    Raises
    ------
    TypeError
        If `estimator` is none of these, has another step, or has a parameter that is not data: a
        function as `preprocessor`, or a `RandomState`. The message names it.
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
    state: dict[str, Any]
    if isinstance(estimator, Pipeline):
        state = {"steps": _steps_state(estimator.steps, tensors)}
    elif _maps().get(name) is type(estimator):
        state = _state(estimator, "", tensors)
    elif isinstance(estimator, metricfast.Database):
        raise TypeError("estimator is a Database: save it by its own method, database.save(path).")
    else:
        raise TypeError(
            "estimator must be a learner of metricfast with a map of layers, or a pipeline of "
            f"StandardScaler and such a learner, got {type(estimator)!r}. {_BY_SKOPS}"
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
        The estimator, with the parameters, map, threshold, feature names and dtypes that were
        saved. Arrays come back contiguous, in the order that they had, and in native byte order,
        NumPy scalars as Python ones.

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
    if name != "Pipeline" and name not in _maps():
        raise ValueError(f"{path} holds a {name!r}, which this metricfast does not have")
    try:
        state = json.loads(metadata["state"])
        if name != "Pipeline":
            return _build(name, state, tensors)
        return _build_pipeline(state["steps"], tensors)
    except _BAD_STATE as error:
        what = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path} does not describe a {name}: {what}") from error


def trusted_types() -> list[str]:
    """Return the names of the types that `skops.io.load` needs to load estimators of metricfast.

    They are the classes of learners, predictors and their parts: none of them reads or writes
    files. Callbacks, sources of points on disk, functions, `losses.Compiled`, which holds addresses
    of code, and the trees of scikit-learn that neighbours under other metrics of scikit-learn are
    searched by, are not among them.

    Returns
    -------
    list of str

    Examples
    --------
    >>> import metricfast
    >>> import skops.io
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> knn = metricfast.KNeighborsClassifier(metric=metricfast.LFDA()).fit(X, y)
    >>> skops.io.dump(knn, "knn.skops")
    >>> again = skops.io.load("knn.skops", trusted=metricfast.io.trusted_types())
    >>> bool((again.predict(X) == knn.predict(X)).all())
    True
    """
    public = [
        getattr(module, name)
        for module in (metricfast, metricfast.neighbors)
        for name in module.__all__
        if name[0].isupper()
    ]
    parts = [
        kind
        for module in (importlib.import_module(f"metricfast.{name}") for name in _PARTS)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    ]
    trusted = {*public, *_choices().values(), *parts}
    return sorted(f"{kind.__module__}.{kind.__name__}" for kind in trusted)


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


def _maps() -> dict[str, type[BaseEstimator]]:
    """Return the learners whose map a file holds."""
    kinds = (MahalanobisMixin, BilinearMixin, EmbeddedMetricMixin)
    learners = [getattr(metricfast, name) for name in LEARNERS]
    return {learner.__name__: learner for learner in learners if issubclass(learner, kinds)}


def _choices() -> dict[str, type[BaseEstimator]]:
    """Return the classes that parameters may be instances of, such as losses and solvers."""
    found = {}
    for area in (
        *("embeddings", "learners", "losses", "samplers", "selection", "solvers", "stopping"),
    ):
        module = getattr(metricfast, area)
        for name in module.__all__:
            choice = getattr(module, name)
            if isinstance(choice, type) and issubclass(choice, BaseEstimator):
                found[f"{area}.{name}"] = choice
    del found["losses.Compiled"]  # it holds a function pointer
    return found


def _steps_state(steps: list[tuple[str, Any]], tensors: dict[str, np.ndarray]) -> list[Any]:
    """Return steps of a pipeline as JSON, each with its name and its class."""
    for i in range(-1, len(steps) - 1):  # the last step first
        name, step = steps[i]
        last, kind = i == -1, type(step)
        if _maps().get(kind.__name__) is not kind if last else kind is not StandardScaler:
            wanted = "a learner of metricfast with a map" if last else "a StandardScaler"
            raise TypeError(
                f"the step {name!r} of the pipeline is {step!r}; a model file needs {wanted} "
                f"there. {_BY_SKOPS}"
            )
    names = [SCALER_NAME] * (len(steps) - 1) + [type(steps[-1][1]).__name__]
    return [
        [name, {"class": names[i], **_state(step, f"steps.{i}.", tensors)}]
        for i, (name, step) in enumerate(steps)
    ]


def _state(estimator: BaseEstimator, prefix: str, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the parameters and the map as JSON; arrays are added to `tensors`."""
    check_is_fitted(estimator)
    name, kept = type(estimator).__name__, SCALER if type(estimator) is StandardScaler else MAP
    params = {**estimator.get_params(deep=False)}
    if "callbacks" in params:
        params["callbacks"] = None
    fitted = {key: getattr(estimator, key) for key in vars(estimator) if key in kept}
    for key in NAMES.keys() & fitted.keys():
        fitted[key] = fitted[key].tolist()
    return {
        "params": {
            key: _encode(value, f"{prefix}params.{key}", f"{name}: parameter {key!r}", tensors)
            for key, value in params.items()
        },
        "fitted": {
            key: _encode(value, f"{prefix}{key}", f"{name}: fitted attribute {key!r}", tensors)
            for key, value in fitted.items()
        },
    }


def _build_pipeline(steps: list[Any], tensors: dict[str, np.ndarray]) -> Pipeline:
    built = [(name, _build(state["class"], state, tensors)) for name, state in steps]
    width = built[0][1].n_features_in_
    for name, step in built:
        if step.n_features_in_ != width:
            raise ValueError(f"step {name!r} has {step.n_features_in_} features, and gets {width}")
    return Pipeline(built)


def _build(name: str, state: dict[str, Any], tensors: dict[str, np.ndarray]) -> BaseEstimator:
    kind = StandardScaler if name == SCALER_NAME else _maps()[name]
    given = state["params"].items()
    estimator = kind(**{key: _decode(value, tensors) for key, value in given})
    for key, value in state["fitted"].items():
        if key not in (SCALER if kind is StandardScaler else MAP):
            raise ValueError(f"{key!r} is no fitted attribute")
        found = _decode(value, tensors)
        setattr(estimator, key, np.array(found, dtype=object) if key in NAMES else found)
    if kind is StandardScaler:
        check_scaler(estimator)
    else:
        check_map(estimator)
        estimator.preprocessor_ = check_preprocessor(estimator.preprocessor)
    return estimator


def _encode(value: Any, key: str, what: str, tensors: dict[str, np.ndarray]) -> Any:
    """Return `value` as JSON; arrays are added to `tensors` under `key`, and JSON refers to it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.name in STORED_DTYPES:
        tensors[key] = np.asarray(value, dtype=value.dtype.newbyteorder("<"), order="C")
        # The memory order is stored, because sums in another order round differently.
        columns_first = value.flags.f_contiguous and not value.flags.c_contiguous
        return {"tensor": key, "order": "F"} if columns_first else {"tensor": key}
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
    raise TypeError(
        f"{what} cannot be stored in a model file: {type(value)!r} is not plain data. {_BY_SKOPS}"
    )


def _decode(value: Any, tensors: dict[str, np.ndarray]) -> Any:
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        # Each tensor may be used once; otherwise a small file with many references could fill
        # memory.
        if value["tensor"] not in tensors:
            raise ValueError(
                f"the array {value['tensor']!r} is missing, or the file refers to it twice"
            )
        return np.asarray(tensors.pop(value["tensor"]), order=value.get("order", "C"))
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "dict":
        return {key: _decode(item, tensors) for key, item in content.items()}
    if kind == "choice":
        name, params = content
        return _choices()[name](**{key: _decode(item, tensors) for key, item in params.items()})
    items = [_decode(item, tensors) for item in content]
    return {"list": list, "tuple": tuple}[kind](items)
