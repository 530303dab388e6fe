"""A user's loss as a compiled C function, which the engine calls for each row."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from metricfast._core.dispatch import get_kernels
from metricfast.losses._call import BaseLoss, Call, Totals

_KEPT: dict[Any, Any] = {}


@dataclass(eq=False, repr=False)
class Compiled(BaseLoss):
    """A user's loss, given as a C function that is called for each anchor.

    The function may come from numba, Cython, ctypes, or any compiler. Distances, threads and the
    gradients of points are the library's matter; nothing is compiled or copied to Python.

    Parameters
    ----------
    function : int, numba.cfunc or ctypes function
        The function or its address, with the signature::

            double row(const double *values, double *derivatives, const double *labels,
                       ptrdiff_t n, ptrdiff_t anchor, ptrdiff_t excluded, double label,
                       void *data)

        It returns the anchor's loss and writes its derivatives by the n ``values``, which are 0
        before: distances of the anchor to the points of the database. ``labels`` are theirs,
        numbers or codes of classes, which differ from call to call: compare them with ``label``,
        the anchor's. ``excluded`` is the row that is left out, whose value is infinite and whose
        derivative is not used, or -1; without a database it equals ``anchor``.
    metric : {"sqeuclidean", "euclidean", "inner_product"}, default="sqeuclidean"
        The kind of values.
    labels : {"class", "continuous"}, default="class"
    data : int or ndarray, optional
        The argument ``data`` of the function: an address, or the address of the array.
    reduction : {"mean", "sum"}, default="mean"
        Mean or sum over anchors.

    Attributes
    ----------
    counts_ : dict
        After a call: "terms" (anchors with another loss than 0) and "anchors".

    Raises
    ------
    ValueError
        In a call: if there is no function, or it gave NaN.

    Notes
    -----
    The function is called from several threads at once, without the GIL: it must change nothing
    but the derivatives. No address can be checked: a wrong one, or a function of another
    signature, ends the process. The loss cannot be pickled, as addresses belong to one process.
    ``sample_weight`` weighs anchors.

    Examples
    --------
    >>> import ctypes
    >>> from metricfast.losses import Compiled
    >>> real, size, pointer = ctypes.c_double, ctypes.c_ssize_t, ctypes.POINTER(ctypes.c_double)
    >>> signature = ctypes.CFUNCTYPE(
    ...     real, pointer, pointer, pointer, size, size, size, real, ctypes.c_void_p
    ... )
    >>> @signature
    ... def pull(values, derivatives, labels, n, anchor, excluded, label, data):
    ...     total = 0.0
    ...     for j in range(n):
    ...         if j != excluded and labels[j] == label:
    ...             total += values[j]
    ...             derivatives[j] = 1.0
    ...     return total
    >>> value, grad = Compiled(pull)([[0.0], [2.0], [9.0]], [0, 0, 1])
    >>> round(value, 3)
    2.667
    """

    function: Any = None
    metric: Literal["sqeuclidean", "euclidean", "inner_product"] = "sqeuclidean"
    labels: Literal["class", "continuous"] = "class"
    data: Any = None
    reduction: Literal["mean", "sum"] = "mean"

    def __post_init__(self) -> None:
        self.function = _address(self.function)

    @property
    def of_inner_products(self) -> bool:  # type: ignore[override]
        return bool(self.metric == "inner_product")

    def _run(self, call: Call) -> Totals:
        if not isinstance(self.function, int) or self.function <= 0:
            raise ValueError(
                "function must be a compiled function or its address, as of numba.cfunc or ctypes; "
                f"found {self.function!r}."
            )
        data = self.data.ctypes.data if isinstance(self.data, np.ndarray) else self.data or 0
        if not isinstance(data, int) or data < 0:
            raise ValueError(f"data must be an address or an array; found {self.data!r}.")
        return get_kernels().compiled(call, self.function, data, self.metric)

    def __getstate__(self) -> NoReturn:
        """Raise TypeError: a function pointer cannot be pickled."""
        raise TypeError(
            "losses.Compiled cannot be pickled: the address of its function is one of this process."
        )


def _address(function: Any) -> Any:
    """Return the address of a function, and keep the function alive in this process."""
    address = getattr(function, "address", function)
    if hasattr(function, "restype"):
        address = ctypes.cast(function, ctypes.c_void_p).value
    if address is not function:
        _KEPT[address] = function
    return address
