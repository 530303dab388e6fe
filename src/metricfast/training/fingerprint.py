"""Fingerprints of data and parameters, equal in every process."""

from __future__ import annotations

import functools
import hashlib
import pickle
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from metricfast._core.sources import Source

# Parameters without influence on iterations, and parameters that set their number.
_INCIDENTAL = {"verbose", "n_jobs", "callbacks", "warm_start", "preprocessor"}
_COUNTS = ("max_iter", "max_epochs")
# Number of blocks, and of rows per block, in the fingerprint of a source.
_BLOCKS, _ROWS = 64, 16
_SCALARS = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)


def fingerprint(*of: object) -> str:
    """Return a digest of values.

    A source is described by some of its rows. A function is described by its code, defaults and
    enclosed values, not by the global names that it uses. A user's class is described by its
    methods.

    Raises TypeError if a value can neither be inspected nor pickled.
    """
    description = _Description()
    description.add(of)
    return description.digest.hexdigest()


def params_of(learner: BaseEstimator, solver: Any, schedule: str) -> tuple[Any, ...]:
    """Return the parameters that the iterations of a training depend on.

    These include the number of iterations only if the schedule is "cosine". `schedule` is the
    default schedule of the solver.
    """
    params, chosen = learner.get_params(deep=False), solver.get_params()
    for name in _INCIDENTAL | {"solver", *_COUNTS}:
        params.pop(name, None)
    stretched = (getattr(solver, "schedule", None) or schedule) == "cosine"
    for name in _COUNTS[:1] if stretched else _COUNTS:
        chosen.pop(name, None)
    return params, type(solver).__name__, chosen


class _Description:
    """A digest, and the objects already included: objects may contain themselves."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()
        self._seen: dict[int, Any] = {}

    def add(self, value: Any) -> None:
        if isinstance(value, _SCALARS):
            self._name(f"{type(value).__name__}:{value!r}")
        elif issparse(value):
            value = value.tocsr()
            self.add([value.shape, value.indptr, value.indices, value.data])
        elif isinstance(value, Source):
            self._name(f"{value.dtype.str}{value.shape}")
            for start in np.linspace(0, len(value) - 1, _BLOCKS).astype(int):
                self.add(value[start : start + _ROWS])
        elif isinstance(value, np.ndarray) and value.dtype != object:
            self._name(f"{value.dtype.str}{value.shape}")
            self.digest.update(np.ascontiguousarray(value).data)
        elif isinstance(value, np.ndarray):
            self.add([value.shape, value.ravel().tolist()])
        elif isinstance(value, (list, tuple)):
            self._name(f"[{len(value)}")
            for item in value:
                self.add(item)
        elif isinstance(value, (set, frozenset)):
            self.add(sorted(map(fingerprint, value)))
        elif isinstance(value, dict):
            self.add([[key, value[key]] for key in sorted(value, key=repr)])
        elif isinstance(value, (np.random.RandomState, np.random.Generator)):
            self._name(type(value).__name__)  # its state differs between fits
        elif id(value) in self._seen:
            self._name("again")
        else:
            self._seen[id(value)] = value
            self._add_object(value)

    def _name(self, text: str) -> None:
        self.digest.update(f"{text};".encode())

    def _add_object(self, value: Any) -> None:
        if isinstance(value, CodeType):
            self.add([value.co_code, value.co_consts, value.co_names, value.co_varnames])
        elif isinstance(value, FunctionType):
            cells = value.__closure__ or ()
            self.add([value.__qualname__, value.__code__, value.__defaults__, value.__kwdefaults__])
            self.add([_content(cell) for cell in cells])
        elif isinstance(value, MethodType):
            self.add([value.__func__, value.__self__])
        elif isinstance(value, functools.partial):
            self.add(["partial", value.func, value.args, value.keywords])
        elif isinstance(value, (type, BuiltinFunctionType, np.ufunc)):
            self._name(f"{getattr(value, '__module__', '')}.{value.__qualname__}")
            self._add_methods(value)
        elif isinstance(value, BaseEstimator):
            self.add([type(value), value.get_params(deep=False)])
        elif hasattr(value, "__dict__"):
            self.add([type(value), vars(value)])
        else:
            try:
                self.add([type(value), pickle.dumps(value, protocol=5)])
            except (TypeError, AttributeError, pickle.PicklingError) as error:
                raise TypeError(
                    f"{value!r} cannot be compared with that of another training: {error}."
                ) from error

    def _add_methods(self, kind: Any) -> None:
        for base in getattr(kind, "__mro__", ()):
            if base.__module__.split(".")[0] in ("builtins", "abc", "metricfast", "sklearn"):
                continue
            methods = vars(base).items()
            self.add({name: item for name, item in methods if isinstance(item, FunctionType)})


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # an unbound variable
        return None
