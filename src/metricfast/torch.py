"""PyTorch: losses and neighbours, computed on the CPU by this library's kernels; learned maps.

Needs ``pip install torch``. CPU tensors of float32 and float64 are read where they are. Others are
copied, and their gradients return to their device and precision. Values of float16 and bfloat16
points are float32, values of integers and booleans float64.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

try:
    import torch
    from torch import nn
    from torch.autograd.function import once_differentiable
except ImportError as error:
    raise ImportError("metricfast.torch needs PyTorch: pip install torch") from error

from sklearn.utils.validation import check_is_fitted

from metricfast._core.arguments import check_bool
from metricfast._core.files import read_tensors, write_tensors
from metricfast.distances.neighbors import SearchMetric, kneighbors
from metricfast.embeddings import Asymmetric, Identity, Linear
from metricfast.embeddings._base import NO_LENGTH, check_side
from metricfast.learners.base.learner import MahalanobisMixin
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.losses._call import BaseLoss

__all__ = ["LinearMap", "Loss", "ProxyLoss", "knn_func", "module"]

_FORMAT, _FILE = "metricfast.torch.LinearMap", "model.safetensors"


class _Function(torch.autograd.Function):
    """A loss of queries and database that computes gradients together with its value."""

    @staticmethod
    def forward(
        ctx: Any,
        Z: torch.Tensor,
        Z_database: torch.Tensor | None,
        loss: BaseLoss,
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

    def __init__(self, loss: BaseLoss) -> None:
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
        self, loss: BaseLoss, n_classes: int, n_components: int, *, normalize: bool = True
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
    metric: SearchMetric = "euclidean",
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
    metric : {"euclidean", "cosine", "inner_product"}, default="euclidean"
        As for :func:`metricfast.kneighbors`.
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
        queries, database, k, metric=metric, L=_array(L), exclude=exclude, n_jobs=n_jobs
    )
    found = torch.from_numpy(distances).to(query.device, _exact(query.dtype))
    return found, torch.from_numpy(indices).to(query.device)


class LinearMap(nn.Module):
    """The linear map of a learner, as :func:`module` returns it: ``L (x - mean)``.

    It is also a module of sentence-transformers: it maps the value of ``"sentence_embedding"`` of a
    dictionary, and has `save` and `load`.

    Parameters
    ----------
    weight : tensor of shape (n_components, n_features)
    mean : tensor of shape (n_features,), optional
        Subtracted from points, by default 0.
    normalize : bool, default=True
        Whether mapped points are divided by their length. Points of at most 1e-12 become 0.

    Attributes
    ----------
    weight : Parameter
        It can be trained further.

    Examples
    --------
    >>> import torch
    >>> from metricfast.torch import LinearMap
    >>> LinearMap(torch.eye(2))(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]], grad_fn=<WhereBackward0>)
    """

    mean: torch.Tensor

    def __init__(
        self, weight: torch.Tensor, mean: torch.Tensor | None = None, *, normalize: bool = True
    ) -> None:
        super().__init__()
        check_bool("normalize", normalize)
        self.normalize = normalize
        self.weight = nn.Parameter(weight.detach().clone())
        self.register_buffer("mean", weight.new_zeros(weight.shape[1]) if mean is None else mean)

    def forward(self, points: Any) -> Any:
        """Map points.

        Parameters
        ----------
        points : tensor of shape (..., n_features) or dict
            A dictionary has them as "sentence_embedding", which is replaced.

        Returns
        -------
        tensor of shape (..., n_components) or dict
            In the precision of `points`.
        """
        if isinstance(points, dict):
            return {**points, "sentence_embedding": self(points["sentence_embedding"])}
        Z = (points - self.mean.to(points.dtype)) @ self.weight.to(points.dtype).T
        if not self.normalize:
            return Z
        most = Z.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30)  # squares may overflow
        lengths = (Z / most).norm(dim=-1, keepdim=True).clamp_min(0.5)
        return torch.where(lengths * most > NO_LENGTH, Z / most / lengths, torch.zeros_like(Z))

    def get_embedding_dimension(self) -> int:
        """Return n_components, for sentence-transformers."""
        return int(self.weight.shape[0])

    get_sentence_embedding_dimension = get_embedding_dimension

    def save(self, output_path: str | os.PathLike[str]) -> None:
        """Write the map to a file in a folder that exists.

        Parameters
        ----------
        output_path : str or path-like
            The folder.
        """
        arrays = {name: value.detach().cpu().numpy() for name, value in self.state_dict().items()}
        metadata = {"format": _FORMAT, "normalize": str(self.normalize)}
        write_tensors(Path(output_path) / _FILE, metadata, arrays)

    @classmethod
    def load(cls, input_path: str | os.PathLike[str]) -> LinearMap:
        """Read what `save` wrote.

        Parameters
        ----------
        input_path : str or path-like
            The folder.

        Returns
        -------
        LinearMap

        Raises
        ------
        ValueError
            If the file is not one of `save`, or was changed.
        """
        metadata, arrays = read_tensors(Path(input_path) / _FILE, _FORMAT, "a LinearMap")
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
        return cls(**tensors, normalize=metadata["normalize"] == "True")

    def extra_repr(self) -> str:
        """Return shape and normalisation as text, for the representation of the module."""
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}, normalize={self.normalize}"


def module(learner: Any, *, side: str = "query") -> LinearMap:
    """Return the linear map of a fitted learner as a module, with the outputs of `transform`.

    Parameters
    ----------
    learner : estimator
        An :class:`~metricfast.AdapterLearner`, or another learner of a linear map.
    side : {"query", "database"}, default="query"
        Which map, if there are two.

    Returns
    -------
    LinearMap
        In the precision of the learner's map.

    Raises
    ------
    TypeError
        If `learner` has no linear map.
    ValueError
        If `side` is not as above.
    sklearn.exceptions.NotFittedError
        If `learner` is not fitted.

    Examples
    --------
    >>> import metricfast.torch
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> metricfast.torch.module(metricfast.LFDA(n_components=2).fit(X, y))
    LinearMap(4, 2, normalize=False)

    For an adapter in a model of sentence-transformers, give
    ``SentenceTransformer(modules=[*model, module(adapter)])``.
    """
    check_side(side)
    if isinstance(learner, MahalanobisMixin):
        check_is_fitted(learner)
        return LinearMap(_tensor(learner.components_), normalize=False)
    if not isinstance(learner, EmbeddedMetricMixin):
        raise TypeError(f"learner must have a linear map; got {learner!r:.80}.")
    check_is_fitted(learner)
    embedding, parameters = learner.embedding_, learner.parameters_
    if isinstance(embedding, Asymmetric):
        embedding, parameters = embedding._side(parameters, side)
    mean = learner._mean(side)
    if type(embedding) is Identity:
        parameters = [np.eye(len(mean), dtype=mean.dtype)]
    elif type(embedding) is not Linear:
        raise TypeError(f"learner must have a linear map; its embedding is {embedding!r:.80}.")
    return LinearMap(_tensor(parameters[0]), _tensor(mean), normalize=bool(embedding.normalize))


def _tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(array))
