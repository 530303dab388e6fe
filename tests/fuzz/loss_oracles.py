"""Values of losses by reference implementations, and gradients by finite differences."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import reference_losses

from metricfast import losses

Arguments = dict[str, Any]
# Reference losses by name, in lower case.
_ALIKE = {
    name.replace("_", ""): make
    for name, make in vars(reference_losses).items()
    if inspect.isfunction(make)
}
_ALIKE["generalizedlifted"] = reference_losses.lifted
# Losses that are sums, and depend on the unit of labels.
_SUMS = ("NCA", "MLKR", "MCML", "LDML")
_EPS = {"LogRatio": ("eps_distance", "eps_log")} | dict.fromkeys(
    ("Ratio", "BoundedRatio"), ("eps_distance",)
)
_OF_CALL = ("Z", "y", "Z_database", "y_database", "n_jobs", "sample_weight", "exclude")
_MOST = 14  # maximum number of points; references loop over all triplets


def loss(name: str) -> Callable[[Arguments, Any], str | None]:
    """The oracle of a loss."""

    def oracle(a: Arguments, result: Any) -> str | None:
        value = _reference(name, a)
        Z, y = np.asarray(a["Z"]), np.asarray(a["y"])
        own = a.get("Z_database") is None
        B = Z if own else np.asarray(a["Z_database"])
        yb = y if own or a.get("y_database") is None else np.asarray(a["y_database"])
        if name == "CoSENT" and not own and a.get("y_database") is None:
            yb = None
        size = max(abs(A.astype(float)).max() for A in (Z, B))
        small = len(Z) >= 2 and max(len(Z), len(B)) <= _MOST
        if value is None or not small or not (size == 0 or 1e-2 < size < 50):
            return ""
        single = Z.dtype.itemsize == B.dtype.itemsize == 4 and Z.dtype.kind == B.dtype.kind == "f"
        Z, B = Z.astype(float), B.astype(float)
        if getattr(losses, name).labels != "class":
            y, yb = _numbers(name, y, yb)

        def f(A: np.ndarray, C: np.ndarray) -> float:
            with np.errstate(all="ignore"):
                return float(value(A, y, A if own else C, yb, own))

        expected = f(Z, B)
        rtol = 2e-3 if single else 1e-6
        atol = rtol * (1 + size**2)
        if name == "MLKR":  # means of labels may cancel
            atol += len(y) * (16 * np.finfo(float).eps * max(abs(y).max(), abs(yb).max())) ** 2
        if name == "CoSENT":  # similarities are rounded before scaling
            atol += 16 * np.finfo(float).eps * a.get("scale", 20.0) * Z.shape[1] * size**2
        if not np.isclose(result[0], expected, rtol=rtol, atol=atol):
            return f"value {result[0]!r}, should be {expected!r}"
        return None if single else _slope(f, Z, B, own, result[1], expected)

    return oracle


def _numbers(name: str, y: Any, yb: Any) -> tuple[Any, Any]:
    """Rescale continuous labels to avoid underflow of squares, if only their ratios matter."""
    sides = [None if side is None else side.astype(float) for side in (y, yb)]
    largest = max(abs(side).max() for side in sides if side is not None)
    unit = 1.0 if name in _SUMS else np.ldexp(1.0, math.frexp(largest)[1])
    first, second = (side if side is None else side / unit for side in sides)
    return first, second


def _slope(f: Any, Z: np.ndarray, B: np.ndarray, own: bool, grad: Any, value: float) -> str | None:
    """Compare the directional derivative, where it exists."""
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=Z.shape), rng.normal(size=B.shape)
    h = 1e-6
    ahead, behind = f(Z + h * u, B + h * v) - value, value - f(Z - h * u, B - h * v)
    if not np.isclose(ahead, behind, rtol=1e-3, atol=1e-12) or abs(ahead) < 1e-9 * abs(value):
        return ""
    given = (grad * u).sum() if own else (grad[0] * u).sum() + (grad[1] * v).sum()
    expected = (ahead + behind) / 2 / h
    if np.isclose(given, expected, rtol=1e-2, atol=1e-5 * (1 + abs(value))):
        return None
    return f"slope {given!r}, should be {expected!r}"


def _reference(name: str, a: Arguments) -> Any:
    """Return the reference with the parameters of this call, or None if there is none."""
    if a.get("sample_weight") is not None or a.get("exclude") is not None:
        return None
    make = _ALIKE.get(name.lower())
    if make is None or any(a.get(eps) is None for eps in _EPS.get(name, ())):
        return None
    given = {k: v for k, v in a.items() if k not in _OF_CALL}
    # Convert to Python numbers: NumPy would compute with a float32 in float32.
    given |= {k: v.item() for k, v in given.items() if isinstance(v, np.generic)}
    if name in _SUMS and given.pop("reduction", "sum") != "sum":
        return None
    if "label_distance" in given:
        given["metric"] = given.pop("label_distance")
    if name == "Triplet":
        if 0 < given.get("margin", 1) < 1e-9:  # lost in rounding when added to a distance
            return None
        given["dense"] = given.pop("labels", "class") == "dense"
    if name in ("Ratio", "BoundedRatio") and given.pop("eps_log", None) != 0:
        return None
    if given.pop("ties", "drop") != "drop":
        return None
    return make(**given) if given.keys() <= inspect.signature(make).parameters.keys() else None
