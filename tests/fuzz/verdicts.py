"""The verdicts on calls, and the functions that determine them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError

from metricfast.exceptions import LossOverflowError, NonPSDError, PreprocessorError

from .cases import Case
from .targets import Target
from .values import CLASSES, DAMAGED, Made, build

CLEAR, RIGHT, DONE = "clear error", "right", "no complaint"
CRASH, HANG, NAN, WRONG = "crash", "hang", "silent NaN", "wrong"
CHANGED, INSIDE = "changed input", "error from inside"
OURS = "the fuzzer failed"
BAD = (CRASH, HANG, NAN, WRONG, CHANGED, INSIDE, OURS)

_CLEAR_ERRORS = {
    *(ValueError, TypeError, MemoryError, NotFittedError, np.linalg.LinAlgError),
    *(LossOverflowError, NonPSDError, PreprocessorError),
}
_SIGNATURE = re.compile(r"incompatible function arguments|Invoked with")
# No function may accept an array of numbers that contains one of these; classes may be dates.
_REFUSED = ("nan", "inf", "none", "complex", "datetime", "masked", "ragged", "word", *DAMAGED)


class Outcome(NamedTuple):
    """A verdict and its reason."""

    verdict: str
    why: str = ""


def judge(target: Target, case: Case) -> Outcome:
    """Run a call and return its verdict. The parent process detects crashes and hangs."""
    arguments = {name: build(value) for name, value in case.arguments.items()}
    before = _digests(target, arguments)
    try:
        result = target.call(**arguments)
        outcome = None
    except MemoryError:
        outcome = Outcome(CLEAR, "MemoryError")
    except (Exception, SystemExit) as error:
        outcome = _of_error(error, target, arguments)
    changed = [
        name for name, digest in _digests(target, arguments).items() if digest != before[name]
    ]
    if changed:
        return Outcome(CHANGED, f"changed {', '.join(changed)}")
    return outcome or _of_result(result, target, case, arguments)


def _of_error(error: BaseException, target: Target, arguments: dict[str, Any]) -> Outcome:
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, OSError) and {"path", "checkpoint"} & arguments.keys():
        return Outcome(CLEAR, text)
    if type(error) not in _CLEAR_ERRORS:
        return Outcome(INSIDE, text)
    words = set(re.findall(r"\w+", str(error).lower()))
    if _SIGNATURE.search(text) or not words & target.words:
        return Outcome(INSIDE, f"names no argument: {text}")
    return Outcome(CLEAR, text)


def _of_result(result: Any, target: Target, case: Case, arguments: dict[str, Any]) -> Outcome:
    for name, value in _arrays(case.arguments):
        poison = getattr(value, "poison", None)
        dates = poison == "datetime" and value.values in CLASSES
        several = poison in _REFUSED and math.prod(value.shape) > 1
        missing = poison in ("nan", "none") and name in target.incomplete
        if several and not (dates or missing) and name not in (*target.unread, *target.written):
            return Outcome(WRONG, f"accepts {name} with {poison}")
    given = (value for value in arguments.values() if isinstance(value, float))
    if target.may_hold != "nan inf" and all(map(math.isfinite, given)):
        found = next(_nonfinite(result, np.isnan if target.may_hold else _not_finite), None)
        if found is not None:
            return Outcome(NAN, f"{found} in the result")
    if target.oracle is None:
        return Outcome(DONE)
    complaint = target.oracle(arguments, result)
    if complaint is None:
        return Outcome(RIGHT)
    return Outcome(WRONG, complaint) if complaint else Outcome(DONE)


def _arrays(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each argument with its name, and the arrays inside of it with the same name."""
    for name, value in arguments.items():
        yield name, value
        if isinstance(value, Made):
            yield from ((name, part) for part in value.arguments.values())


def _digests(target: Target, arguments: dict[str, Any]) -> dict[str, Any]:
    return {k: digest(v) for k, v in arguments.items() if k not in target.written}


def digest(value: Any) -> Any:
    """Return a value to compare, to detect changes of an argument."""
    if isinstance(value, np.ma.MaskedArray):
        return digest(value.data), digest(np.ma.getmaskarray(value))
    if isinstance(value, np.ndarray):
        content = repr(value.tolist()) if value.dtype.kind == "O" else value.tobytes()
        return value.shape, value.dtype.str, value.flags.writeable, content
    if sparse.issparse(value):
        parts = ("data", "indices", "indptr", "coords", "rows", "row", "col")
        return value.format, *(digest(getattr(value, part, None)) for part in parts)
    if hasattr(value, "to_numpy"):
        return repr(getattr(value, "columns", None)), digest(value.to_numpy())
    if isinstance(value, (list, tuple)):
        return type(value), [digest(item) for item in value]
    return repr(value) if isinstance(value, (Number, str, bytes, dict)) else type(value)


def _not_finite(values: Any) -> Any:
    return ~np.isfinite(values)


def _nonfinite(result: Any, bad: Any, name: str = "") -> Iterator[str]:
    """Yield the positions of bad numbers in a result: NaN, and optionally infinity."""
    if hasattr(result, "to_numpy"):
        result = result.to_numpy()
    if sparse.issparse(result):
        result = result.data
    if isinstance(result, (float, np.floating)) and bad(result):
        yield f"{name} {result}".strip()
    elif isinstance(result, np.ndarray) and result.dtype.kind in "fc":
        if bad(result).any():
            yield f"{name} {result[bad(result)][0]}".strip()
    elif isinstance(result, dict):
        for key, value in result.items():
            yield from _nonfinite(value, bad, f"{name}[{key!r}]")
    elif isinstance(result, (list, tuple)):
        for value in result:
            yield from _nonfinite(value, bad, f"{name}[]")
    elif hasattr(result, "get_params"):
        for key, value in vars(result).items():
            if key.endswith("_") and not key.startswith("_"):
                yield from _nonfinite(value, bad, f"{name}.{key}")
