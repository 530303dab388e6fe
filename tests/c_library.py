"""The C library, called from Python; signatures are read from its header."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np

import metricfast

HEADER = Path(metricfast.get_include(), "metricfast.h").read_text()
DECLARATION = re.compile(r"METRICFAST_API ([\w ]+?[ *])(metricfast_\w+)\(([^)]*)\);")
NAMES = re.findall(r"METRICFAST_(\w+) = (\d)", HEADER)
STATUS = {int(value): name for name, value in NAMES if name.startswith(("OK", "ERROR"))}
TYPES = {"int": ctypes.c_int, "metricfast_side": ctypes.c_int, "int64_t": ctypes.c_int64}
TYPES |= {"size_t": ctypes.c_size_t, "void": None, "metricfast_metric": ctypes.c_int}
TYPES |= {"double": ctypes.c_double, "metricfast_ties": ctypes.c_int}


def _type_of(declared: str) -> Any:
    declared = declared.replace("const ", "").strip()
    if "*" not in declared:
        return TYPES[declared.split()[0]]
    return ctypes.c_char_p if declared.startswith("char") else ctypes.c_void_p


def _load() -> ctypes.CDLL:
    (path,) = Path(metricfast.get_library_dir()).glob("libmetricfast.*")
    library = ctypes.CDLL(str(path))
    for result, name, parameters in DECLARATION.findall(HEADER):
        function = getattr(library, name)
        function.restype = _type_of(result)
        function.argtypes = [_type_of(p) for p in parameters.split(",") if p.strip() != "void"]
    return library


LIBRARY = _load()


class CError(Exception):
    """The library's error message, and the name of its status."""


def call(name: str, *arguments: Any) -> None:
    """Call a function that returns a status, with arrays for pointers."""
    given = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    status = STATUS[getattr(LIBRARY, f"metricfast_{name}")(*given)]
    if status != "OK":
        raise CError(f"{status}: {LIBRARY.metricfast_last_error().decode()}")


def _suffix(array: np.ndarray) -> str:
    return {"float32": "f32", "float64": "f64"}[array.dtype.name]


class Model:
    """A model that the library reads from a path or from bytes."""

    def __init__(self, source: Path | bytes) -> None:
        handle = ctypes.c_void_p()
        if isinstance(source, bytes):
            call("model_parse", source, len(source), ctypes.byref(handle))
        else:
            call("model_load", str(source).encode(), ctypes.byref(handle))
        self.handle = handle
        self.learner = LIBRARY.metricfast_model_learner(handle).decode()
        self.n_features = LIBRARY.metricfast_model_n_features(handle)
        self.n_components = LIBRARY.metricfast_model_n_components(handle)

    def __del__(self) -> None:
        LIBRARY.metricfast_model_free(getattr(self, "handle", None))

    def transform(self, X: np.ndarray, side: int = 0, n_threads: int = 0) -> np.ndarray:
        X = np.ascontiguousarray(X)
        Z = np.empty((len(X), self.n_components), X.dtype)
        call(f"transform_{_suffix(X)}", self.handle, side, X, len(X), Z, n_threads)
        return Z

    def pair_score(self, pairs: np.ndarray) -> np.ndarray:
        x, y = (np.ascontiguousarray(pairs[:, end]) for end in (0, 1))
        scores = np.empty(len(x), x.dtype)
        call(f"pair_score_{_suffix(x)}", self.handle, x, y, len(x), scores, 0)
        return scores


def _struct(name: str) -> type[ctypes.Structure]:
    """Return a struct of the header, with addresses for arrays."""
    body = re.search(rf"typedef struct {name} {{(.*?)}}", HEADER, re.DOTALL)
    members = re.findall(r"^    ([\w ]+[ *]+)(\w+);", body[1] if body else "", re.MULTILINE)
    fields = [(member, _type_of(declared)) for declared, member in members]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


FILTER, LISTS, VOTES, SETS = (
    _struct(f"metricfast_{name}") for name in ("filter", "lists", "votes", "sets")
)


def _filled(struct: type[ctypes.Structure], **given: Any) -> Any:
    """Return a reference to a struct, with addresses of arrays."""
    values = {n: a.ctypes.data if isinstance(a, np.ndarray) else a for n, a in given.items()}
    return ctypes.byref(struct(**values))


class Database:
    """A database of points under a model."""

    def __init__(self, model: Model, X: np.ndarray, metric: int = 0) -> None:
        X, handle = np.ascontiguousarray(X), ctypes.c_void_p()
        name = f"database_create_{_suffix(X)}"
        call(name, model.handle, X, len(X), metric, 0, ctypes.byref(handle))
        self.handle = handle

    def __del__(self) -> None:
        LIBRARY.metricfast_database_free(getattr(self, "handle", None))

    def __len__(self) -> int:
        return LIBRARY.metricfast_database_n_points(self.handle)

    def kneighbors(
        self, X: np.ndarray, k: int, n_threads: int = 0, **filters: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        X = np.ascontiguousarray(X)
        distances, rows = np.empty((len(X), k), X.dtype), np.empty((len(X), k), np.int64)
        name = f"database_search_{_suffix(X)}"
        call(
            name, self.handle, X, len(X), k, _filled(FILTER, **filters), distances, rows, n_threads
        )
        return distances, rows

    def radius_neighbors(
        self, X: np.ndarray, radius: float, **filters: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, found = np.ascontiguousarray(X), ctypes.POINTER(LISTS)()
        name = f"database_radius_{_suffix(X)}"
        filter = _filled(FILTER, **filters)
        call(name, self.handle, X, len(X), radius, filter, 0, ctypes.byref(found))
        lists = found.contents

        def array(address: int, dtype: type, size: int) -> np.ndarray:
            return np.frombuffer(ctypes.string_at(address, 8 * size) if size else b"", dtype)

        starts = array(lists.row_starts, np.int64, lists.n_queries + 1)
        size = int(starts[-1])
        result = array(lists.distances, np.float64, size), array(lists.rows, np.int64, size), starts
        LIBRARY.metricfast_lists_free(found)
        return result

    def infer(self, X: np.ndarray, k: int, **votes: Any) -> list[dict[str, np.ndarray]]:
        X = np.ascontiguousarray(X)
        sets = [
            {
                "rows": np.empty((len(X), k), np.int64), "values": np.empty(len(X)),
                "costs": np.empty(len(X)), "feasible": np.empty(len(X), np.bool_),
            }
            for _ in range(2)
        ]  # fmt: skip
        call(
            f"database_infer_{_suffix(X)}", self.handle, X, len(X),
            _filled(VOTES, n_neighbors=k, **votes), *(_filled(SETS, **each) for each in sets), 0,
        )  # fmt: skip
        return sets
