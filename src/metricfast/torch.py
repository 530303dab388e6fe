"""Losses and neighbours in PyTorch, computed on the CPU by this library's kernels.

Needs ``pip install torch``. CPU tensors of float32 and float64 are read where they are. Others are
copied, and their gradients return to their device and precision. Values of float16 and bfloat16
points are float32, values of integers and booleans float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

try:
    import torch
    from torch import nn
    from torch.autograd.function import once_differentiable
except ImportError as error:
    raise ImportError("metricfast.torch needs PyTorch: pip install torch") from error

from metricfast._core.arguments import check_bool
from metricfast.distances.neighbors import kneighbors
from metricfast.losses._call import Loss as RowLoss

__all__ = ["Loss", "ProxyLoss", "knn_func"]


class _Function(torch.autograd.Function):
    """A loss of queries and database that computes gradients together with its value."""

    @staticmethod
    def forward(
        ctx: Any,
        Z: torch.Tensor,
        Z_database: torch.Tensor | None,
        loss: RowLoss,
        y: ArrayLike,
        y_database: ArrayLike | None,
        keywords: dict[str, Any],
    ) -> torch.Tensor:
        database = None if Z_database is None else _points(Z_database, "Z_database")
        value, grads = loss(_points(Z, "Z"), y, database, y_database, **keywords)
        pairs = zip((Z, Z_database), grads if isinstance(grads, tuple) else (grads,), strict=False)
        saved = [(torch.from_numpy(grad).to(Z.device), points) for points, grad in pairs]
        ctx.save_for_backward(*(grad for grad, _ in saved))
        ctx.points = [(points.device, points.dtype) for _, points in saved]
        return Z.new_tensor(value, dtype=_exact(Z.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_value: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        pairs = zip(ctx.saved_tensors, ctx.points, strict=True)
        # Small gradients are scaled before they are rounded to the precision of the points.
        grad, *of_database = ((by_value * saved).to(*points) for saved, points in pairs)
        return grad, *(of_database or [None]), None, None, None, None


def _exact(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of computations: float32 for floats of at most 32 bits, else float64."""
    if dtype.is_floating_point and dtype != torch.float64:
        return torch.float32
    return torch.float64


def _points(tensor: torch.Tensor, name: str) -> Any:
    if tensor.is_complex():
        raise TypeError(
            f"{name} must hold real numbers; found {tensor.dtype}: give "
            f"torch.view_as_real({name}).flatten(1), whose distances are the same."
        )
    return tensor.detach().to("cpu", _exact(tensor.dtype)).numpy()


def _array(values: Any) -> Any:
    if not isinstance(values, torch.Tensor):
        return values
    known = values.dtype != torch.bfloat16  # NumPy has no such dtype
    return (values if known else values.float()).detach().cpu().numpy()


class Loss(nn.Module):
    """A loss of :mod:`metricfast.losses` as a module.

    Parameters
    ----------
    loss : object of :mod:`metricfast.losses`

    Raises
    ------
    TypeError
        If `loss` is a class, or cannot be called. In a call, if points are complex.

    Notes
    -----
    The gradient is computed with the value, so it can be used once; there are no second
    derivatives. Calls raise the ``ValueError`` of the loss. A loss of inner products
    is one of cosines after ``torch.nn.functional.normalize``.

    Examples
    --------
    >>> import torch
    >>> from metricfast.losses import LogRatio
    >>> from metricfast.torch import Loss
    >>> layer = torch.nn.Linear(3, 2)
    >>> loss = Loss(LogRatio())
    >>> loss(layer(torch.randn(8, 3)), torch.arange(8.0)).backward()
    >>> layer.weight.grad.shape
    torch.Size([2, 3])
    """

    def __init__(self, loss: RowLoss) -> None:
        super().__init__()
        if isinstance(loss, type) or not callable(loss):
            raise TypeError(
                f"loss must be an object of metricfast.losses, such as Triplet(), got {loss!r}."
            )
        self.loss = loss

    def forward(
        self,
        Z: torch.Tensor,
        y: Any,
        Z_database: torch.Tensor | None = None,
        y_database: Any = None,
        **keywords: Any,
    ) -> torch.Tensor:
        """Return the loss as a scalar tensor: float32 for floats of at most 32 bits, else float64.

        Parameters
        ----------
        Z : tensor of shape (n, n_components)
        y : tensor or array-like
        Z_database : tensor of shape (m, n_components), optional
        y_database : tensor or array-like, optional
        **keywords
            As the loss takes them: ``sample_weight``, ``exclude``, ``n_jobs``.
        """
        given = {name: _array(value) for name, value in keywords.items()}
        result: torch.Tensor = _Function.apply(
            Z, Z_database, self.loss, _array(y), _array(y_database), given
        )
        return result

    def extra_repr(self) -> str:
        """Return the loss as text, for the representation of the module."""
        return repr(self.loss)


class ProxyLoss(Loss):
    """A loss with proxies, which are a parameter of the module.

    Parameters
    ----------
    loss : ProxyNCA or ProxyAnchor
    n_classes : int
        Labels are the classes 0 .. n_classes - 1.
    n_components : int
    normalize : bool, default=True
        Whether proxies are used with length one. Points are not normalised here.

    Examples
    --------
    >>> import torch
    >>> from metricfast.losses import ProxyAnchor
    >>> from metricfast.torch import ProxyLoss
    >>> loss = ProxyLoss(ProxyAnchor(), n_classes=3, n_components=2)
    >>> Z = torch.nn.functional.normalize(torch.randn(8, 2))
    >>> loss(Z, torch.arange(8) % 3).backward()
    >>> loss.proxies.grad.shape
    torch.Size([3, 2])
    """

    def __init__(
        self, loss: RowLoss, n_classes: int, n_components: int, *, normalize: bool = True
    ) -> None:
        super().__init__(loss)
        if not getattr(loss, "learnable_database", False):
            raise ValueError(f"{type(loss).__name__} has no proxies: use Loss.")
        self.normalize = normalize
        self.proxies = nn.Parameter(torch.empty(n_classes, n_components))
        nn.init.kaiming_normal_(self.proxies, mode="fan_out")

    def forward(self, Z: torch.Tensor, y: Any, **keywords: Any) -> torch.Tensor:  # type: ignore[override]
        """The loss of points and the module's proxies; see :class:`Loss`."""
        classes, labels = np.arange(len(self.proxies)), np.asarray(_array(y))
        known = np.isin(labels, classes)
        if not known.all():
            raise ValueError(
                f"y must hold classes from 0 to {len(classes) - 1}, as n_classes={len(classes)} "
                f"says; found {labels[~known].flat[0]}."
            )
        proxies = self.proxies.to(Z.device, _exact(Z.dtype))
        if self.normalize:
            proxies = nn.functional.normalize(proxies)
        return super().forward(Z, labels, proxies, classes, **keywords)


def knn_func(
    query: torch.Tensor,
    k: int,
    reference: torch.Tensor | None = None,
    ref_includes_query: bool = False,
    *,
    L: ArrayLike | torch.Tensor | None = None,
    n_jobs: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Exact nearest neighbours, as the tools of pytorch-metric-learning ask for them.

    Parameters
    ----------
    query : tensor of shape (n, d)
    k : int
    reference : tensor of shape (m, d), optional
        By default the queries, each excluded from its own neighbours.
    ref_includes_query : bool, default=False
        Whether the first n references are the queries, each to be excluded from its own neighbours.
    L : array-like or tensor of shape (p, d), optional
        Distances are ``||Lx - Ly||``; give it by :func:`functools.partial`.
    n_jobs : int, optional

    Returns
    -------
    distances : tensor of shape (n, k)
        Distances, not squared, on the device of `query`: float64 for float64 and integers, float32
        for floats of less precision.
    indices : tensor of int64 of shape (n, k)
        Nearest first, equal distances in the order of the index.

    Raises
    ------
    TypeError
        If query or reference is no tensor, or holds complex numbers.
    ValueError
        As :func:`metricfast.kneighbors`.

    Examples
    --------
    >>> import torch
    >>> from metricfast.torch import knn_func
    >>> points = torch.tensor([[0.0], [1.0], [3.0]])
    >>> knn_func(points, 1, points, ref_includes_query=True)[1].ravel()
    tensor([1, 0, 1])

    ``AccuracyCalculator(knn_func=knn_func)`` then needs no faiss.
    """
    for name, given in (("query", query), ("reference", reference)):
        if not isinstance(given, torch.Tensor) and not (given is None and name == "reference"):
            raise TypeError(f"{name} must be a tensor; found {type(given).__name__}.")
    check_bool("ref_includes_query", ref_includes_query)
    queries = _points(query, "query")
    database = None if reference is None else _points(reference, "reference")
    if ref_includes_query and database is not None and len(database) < len(queries):
        raise ValueError(
            f"reference must begin with the {len(queries)} queries where ref_includes_query is "
            f"True; found {len(database)} points."
        )
    exclude = np.arange(len(queries)) if ref_includes_query else None
    distances, indices = kneighbors(
        queries, database, k, L=_array(L), exclude=exclude, n_jobs=n_jobs
    )
    found = torch.from_numpy(distances).to(query.device, _exact(query.dtype))
    return found, torch.from_numpy(indices).to(query.device)
