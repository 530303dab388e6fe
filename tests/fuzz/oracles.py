"""Oracles: expected results from slow reference implementations and brute force.

An oracle takes the arguments and the result, and returns an error message, None for a correct
result, or "" if it cannot decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import reference
from reference_inference import brute_force
from reference_ranking import OF_NUMBERS, by_definition
from scipy.sparse import issparse

Arguments = dict[str, Any]
_SETS = 500  # maximum number of sets for brute force


def _points(value: Any) -> np.ndarray:
    array = value.toarray() if issparse(value) else np.asarray(value)
    return array.astype(np.float64).astype(np.longdouble)


def _sides(a: Arguments, first: str, second: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return embedded points of both sides, and the tolerance for each embedded value."""
    X = _points(a[first])
    Y = X if a.get(second) is None else _points(a[second])
    U = a.get("L") if a.get("U") is None else a["U"]
    V = a.get("L") if a.get("V") is None else a["V"]
    if a.get("M") is not None and a.get("metric") == "inner_product":
        U, V = _points(a["M"]).T, np.eye(Y.shape[1])
    elif a.get("M") is not None:
        values, vectors = np.linalg.eigh(np.asarray(a["M"], np.float64))
        U = V = (vectors * np.sqrt(np.maximum(values, 0))).T
    if U is None:
        return X, Y, np.zeros((len(X), len(Y)))
    U, V = _points(U), _points(V)
    sizes = [_norms(abs(S) @ abs(M).T) for S, M in ((X, U), (Y, V))]
    return X @ U.T, Y @ V.T, np.add.outer(*sizes)


def _norms(points: np.ndarray) -> np.ndarray:
    """Return the lengths of rows, in a type in which squares do not underflow."""
    return np.sqrt((points.astype(np.longdouble) ** 2).sum(axis=-1))


def _distances(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    return _norms(A[:, None] - B[None])


def _searched_sides(a: Arguments) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the embedded database, the distances of a search, and their tolerances."""
    A, B, size = _sides(a, "queries", "database")
    metric = a.get("metric", "euclidean")
    if metric == "euclidean":
        return B, _distances(A, B), size
    lengths = np.multiply.outer(_norms(A), _norms(B))
    if metric == "inner_product":
        return B, -(A @ B.T), lengths + size * np.add.outer(_norms(A), _norms(B))
    cosines = np.where(lengths > 0, A @ B.T / np.where(lengths > 0, lengths, 1), 0)
    both_zero = ~A.any(axis=1)[:, None] & ~B.any(axis=1)
    return B, np.where(both_zero, 0, 1 - cosines), 1 + size / np.where(lengths > 0, lengths, 1)


def _off(found: Any, D: np.ndarray, size: np.ndarray, width: int, squared: Any) -> str | None:
    """Return an error message if distances differ by more than rounding."""
    found = np.asarray(found)
    eps, least = np.finfo(found.dtype).eps, np.finfo(found.dtype).tiny
    given = np.sqrt(found.astype(np.longdouble)) if squared else found
    least = math.sqrt(float(least)) if squared else float(least)
    most = math.sqrt(np.finfo(found.dtype).max)
    wrong = abs(given - D) > 16 * (width + 2) * eps * (abs(D) + size) + 4 * least
    # Squares that overflow are infinite, as documented.
    wrong &= ~(np.isposinf(given) & (most < D))
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"distance {float(given[at])!r} at {at}, should be {float(D[at])!r}"


def pairwise(a: Arguments, result: Any) -> str | None:
    A, B, size = _sides(a, "X", "Y")
    D, eps = _distances(A, B), np.finfo(np.asarray(result).dtype).eps
    # Half of the digits are guaranteed; the others may be lost if |a|^2 + |b|^2 - 2ab cancels.
    return _off(result, D, size + D / math.sqrt(eps), _points(a["X"]).shape[1], a.get("squared"))


def paired(a: Arguments, result: Any) -> str | None:
    A, B, size = _sides(a, "X", "Y")
    rows, columns = np.arange(len(A)), np.arange(len(B))
    if a.get("pairs") is not None:
        rows, columns = np.asarray(a["pairs"]).astype(int).reshape(-1, 2).T
    D = np.sqrt(((A[rows] - B[columns]) ** 2).sum(axis=1))
    return _off(result, D, size[rows, columns], _points(a["X"]).shape[1], a.get("squared"))


def _allowed(where: Any, n: int, ids: np.ndarray) -> np.ndarray:
    """Return a mask of the points that `where` allows each query."""
    if where is None:
        return np.ones((n, len(ids)), bool)
    if isinstance(where, tuple):
        first, second = (np.asarray(side).tolist() for side in where)
        return np.array([[x != y for y in second] for x in first], bool).reshape(n, len(ids))
    some = np.asarray(where)
    mask = some if some.dtype == bool else np.isin(ids, some.astype(int))
    return np.tile(mask, (n, 1))


def _searched(
    a: Arguments, found: Any, indices: Any, D: np.ndarray, size: np.ndarray, B: np.ndarray,
    columns: np.ndarray,
) -> str | None:  # fmt: skip
    """Check neighbours among some columns: their indices, distances and order."""
    exclude = a.get("exclude")
    if exclude is None and a.get("database") is None:
        exclude = np.arange(len(D))
    # Distances far below the largest are lost in rounding.
    size = size + abs(D).max(initial=0) * 2.0**-900
    D = np.where(math.sqrt(np.finfo(float).max) < D, np.inf, D)  # their squares overflow
    rows = np.asarray(a["queries"] if a.get("database") is None else a["database"])
    squares = D.astype(float) ** 2
    exact = squares.max(initial=0) < 2**53 and not (squares % 1).any() and not (B % 1).any()
    exact &= a.get("metric", "euclidean") == "euclidean"
    eps = np.finfo(np.asarray(found).dtype).eps
    allowed = _allowed(a.get("where"), len(D), columns)
    for i, row in enumerate(D):
        some = columns[allowed[i]].tolist()
        left = [j for j in some if exclude is None or j != np.asarray(exclude)[i]]
        want = sorted(left, key=lambda j: (row[j], j))[: len(indices[i])]
        got = [j for j in indices[i].tolist() if j >= 0]
        if len(got) != len(want) or not set(got) <= set(left) or len(set(got)) != len(got):
            return f"row {i}: neighbours {got}, should be {want}"
        none = slice(len(got), None)
        if (indices[i][none] != -1).any() or not np.isposinf(found[i][none]).all():
            return f"row {i}: no point is index -1 at distance infinity, found {indices[i]}"
        # Embedded points are in float64, where tiny values underflow.
        room = 64 * (B.shape[1] + 2) * eps * (abs(row) + size[i]) + 4 * np.finfo(float).tiny
        away = [abs(row[g] - row[w]) > room[g] + room[w] for g, w in zip(got, want, strict=True)]
        if any(away) or (exact and got != want):
            return f"row {i}: neighbours {got}, should be {want}"
        for place, j in enumerate(got):  # equal rows are ordered by index
            same = np.flatnonzero((rows[:j] == rows[j]).all(axis=1)).tolist()
            before = set(same) & set(left) - set(got[:place])
            if before:
                return f"row {i}: neighbours {got}, where {min(before)} is equal to {j}"
        complaint = _off(found[i][: len(got)], row[got], size[i][got], B.shape[1], a.get("squared"))
        if complaint:
            return f"row {i}: {complaint}"
    return None


def neighbors(a: Arguments, result: Any) -> str | None:
    B, D, size = _searched_sides(a)
    return _searched(a, *result, D, size, B, np.arange(len(B)))


def of_database(a: Arguments, result: Any) -> str | None:
    """Check neighbours in a database after additions and removals."""
    points = np.concatenate([_points(a[k]) for k in ("X", "more") if k in a])
    B, D, size = _searched_sides(a := {**a, "database": points})
    left = np.delete(np.arange(len(B)), np.asarray(a.get("ids", []), int))
    return _searched(a, *result, D, size, B, left)


def within(a: Arguments, result: Any) -> str | None:
    B, D, size = _searched_sides(a)
    distances, indices, starts = result
    radius, eps = a.get("radius", 1.0), np.finfo(np.asarray(distances).dtype).eps
    room = 64 * (B.shape[1] + 2) * eps * (abs(D) + size) + 4 * np.finfo(float).tiny
    exclude = a.get("exclude")
    if exclude is None and a.get("database") is None:
        exclude = np.arange(len(D))
    rows = np.repeat(np.arange(len(D)), np.diff(starts))
    found = np.zeros(D.shape, bool)
    found[rows, indices] = True
    allowed = np.ones(D.shape, bool)
    if exclude is not None:
        left_out = np.flatnonzero(np.asarray(exclude) >= 0)
        allowed[left_out, np.asarray(exclude)[left_out]] = False
    wrong = (found & (~allowed | (D - room > radius))) | (~found & allowed & (D + room < radius))
    if wrong.any() or found.sum() != len(indices):
        i = int(wrong.any(axis=1).argmax())
        return f"row {i}: neighbours {np.flatnonzero(found[i]).tolist()} within {radius!r}"
    return _off(distances, D[rows, indices], size[rows, indices], B.shape[1], False)


def neighbors_per_class(a: Arguments, result: Any) -> str | None:
    A, B, size = _sides(a, "queries", "database")
    labels, D = np.asarray(a["labels"]), _distances(A, B)
    for c, label in enumerate(np.unique(labels)):
        found = (part[:, c] for part in result)
        complaint = _searched(a, *found, D, size, B, np.flatnonzero(labels == label))
        if complaint:
            return f"class {label}: {complaint}"
    return None


def gradient(a: Arguments, result: Any) -> str | None:
    X = _points(a["X"])
    Y = X if a.get("Y") is None else _points(a["Y"])
    W = _points(a["weights"])
    if a.get("U") is None:  # both may be shifted together
        X, Y = X - Y.mean(axis=0), Y - Y.mean(axis=0)
    U, V = (a.get("U"), a.get("V")) if a.get("L") is None else (a["L"], a["L"])
    U, V = (np.eye(X.shape[1]) if M is None else _points(M) for M in (U, V))
    A, B = X @ U.T, Y @ V.T
    R = A[:, None] - B[None]
    S = np.add.outer(_norms(abs(X) @ abs(U).T), _norms(abs(Y) @ abs(V).T))
    of_query = 2 * np.einsum("ij,ijp,id->pd", W, R, X)
    of_database = -2 * np.einsum("ij,ijp,jd->pd", W, R, Y)
    room = 2 * np.einsum("ij,ij,id->d", abs(W), S, abs(X))
    room = room + 2 * np.einsum("ij,ij,jd->d", abs(W), S, abs(Y))
    single = all(
        getattr(np.asarray(a[k]), "dtype", None) in ("f4", ">f4") for k in ("X", "Y")
        if a.get(k) is not None
    )  # fmt: skip
    room = room * (X.shape[1] + 4) * 64 * np.finfo(np.float32 if single else float).eps + 1e-300
    whole = (of_query + of_database) / (2 if a.get("M") is not None else 1)
    pairs = zip(result, (of_query, of_database), strict=True) if isinstance(result, tuple) else [
        (result, whole)
    ]  # fmt: skip
    for found, expected in pairs:
        if (abs(found - expected) > room).any():
            return f"gradient {found.tolist()}, should be {expected.astype(float).tolist()}"
    return None


def _infer(a: Arguments, result: Any, which: int) -> str | None:
    if a.get("method", "exact") != "exact" or a.get("loss_matrix") is not None:
        return ""
    if a.get("metric", "sqeuclidean") == "precomputed":
        D = _points(a["queries"]).astype(float)
    else:
        A, B, _ = _sides(a, "queries", "database")
        D = reference.squared_distances(A, B)
    k, known = int(a["n_neighbors"]), np.asarray(a["query_labels"])
    labels = np.asarray(a["database_labels"])
    if math.comb(D.shape[1], k) > _SETS or not np.isfinite(D).all():
        return ""
    classes, codes = np.unique(np.concatenate([known, labels]), return_inverse=True)
    queries, database = codes[: len(known)], codes[len(known) :]
    exclude = a.get("exclude")
    if exclude is None:
        own = a.get("database") is None and a.get("metric") != "precomputed"
        exclude = np.arange(len(D)) if own else np.full(len(D), -1)
    for i, row in enumerate(D):
        delta = np.where(np.arange(len(classes)) == queries[i], 0.0, 1.0)
        ties = a.get("ties", "pessimistic")
        best = brute_force(row, database, delta, k, ties, int(np.asarray(exclude)[i]))[which]
        if (best is not None) != bool(result.feasible[i]):
            return f"query {i}: feasible {result.feasible[i]}, should be {best is not None}"
        # Values are sums of squares, in the precision of the points.
        if best is not None and abs(best - result.values[i]) > 1e-5 * (
            abs(row[row < np.inf]).sum() + 1
        ):
            return f"query {i}: value {result.values[i]}, should be {best}"
    return None


def targeted(a: Arguments, result: Any) -> str | None:
    return _infer(a, result, 0)


def augmented(a: Arguments, result: Any) -> str | None:
    return _infer(a, result, 1)


def both(a: Arguments, result: Any) -> str | None:
    return _infer(a, result[0], 0) or _infer(a, result[1], 1)


def retrieval(name: str) -> Callable[[Arguments, Any], str | None]:
    def oracle(a: Arguments, result: Any) -> str | None:
        labels = np.asarray(a["labels"])
        mapped = not {"L", "U"}.isdisjoint(k for k in a if a[k] is not None)
        if labels.ndim != 1 or mapped or a.get("metric", "euclidean") != "euclidean":
            return ""
        alone = a.get("database") is None
        first, second = (_points(a["queries"] if alone else a[k]) for k in ("queries", "database"))
        exclude = a.get("exclude")
        if exclude is None:
            exclude = np.arange(len(first)) if alone else np.full(len(first), -1)
        known = labels if alone else np.asarray(a["database_labels"])
        if name in OF_NUMBERS:
            labels, known = labels.astype(float), known.astype(float)
        values = np.array([])
        allowed = _allowed(a.get("where"), len(first), np.arange(len(second)))
        for query, label, out, left in zip(
            first, labels, np.asarray(exclude), allowed, strict=True
        ):
            if not left.any():
                values = np.append(values, np.nan)
                continue
            own = np.cumsum(left)[out] - 1 if out >= 0 and left[out] else -1
            # Rescaled, so that squares in the reference neither overflow nor underflow.
            unit = np.ldexp(1.0, math.frexp(abs(query - second).max())[1])
            point, database = ((side / unit).astype(float) for side in (query, second[left]))
            value = by_definition(
                name, [point], [label], database, known[left], [own], a.get("k", 10)
            )
            values = np.append(values, value)
        if name == "spearman" and np.isnan(values).any():  # only ties
            return ""
        expected = values[~np.isnan(values)].mean() if not np.isnan(values).all() else np.nan
        if np.isclose(float(result), expected, rtol=1e-6, atol=1e-9, equal_nan=True):
            return None
        return f"{name} {result!r}, should be {expected!r}"

    return oracle


def epoch(a: Arguments, batches: Any) -> str | None:
    n, m = len(a["y"]), None if a.get("y_database") is None else len(a["y_database"])
    sides = [(batch.rows, n) for batch in batches]
    if m is not None:  # anchors are queries, the other rows are of the database
        sides = [(batch.rows[: batch.n_anchors], n) for batch in batches]
        sides += [(batch.rows[batch.n_anchors :], m) for batch in batches]
    if any(len({*r.tolist()}) != len(r) or {*r.tolist()} - {*range(k)} for r, k in sides):
        return "a batch repeats a point, or has one that there is not"
    anchors = np.concatenate([batch.rows[: batch.n_anchors] for batch in batches])
    if not a.get("all_anchors") and sorted(anchors.tolist()) != list(range(n)):
        return "a point is not an anchor exactly once"
    return None


def same(_: Arguments, result: Any) -> str | None:
    """Check two lists of arrays for bitwise equality."""
    for one, two in zip(*result, strict=True):
        if (one is None) != (two is None) or not np.array_equal(one, two):
            return "the result differs from what it was before"
    return None


def undamaged(_: Arguments, result: Any) -> str | None:
    return "loads a damaged file" if result[0] else None
