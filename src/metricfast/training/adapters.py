"""Adapters of a user's losses, embeddings and samplers, which check their results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast._core.dispatch import get_kernels
from metricfast.embeddings import Embedding
from metricfast.exceptions import LossOverflowError
from metricfast.losses._call import Loss
from metricfast.samplers import Batch, Epoch, Sampler

__all__ = ["CallableLoss", "check_labels", "checked_batches", "initial_parameters", "prepared"]

Array = NDArray[Any]


def check_labels(loss: Any) -> None:
    """Raise ValueError if a user's loss names an unknown kind of labels."""
    labels = getattr(loss, "labels", "class")
    if not isinstance(loss, Loss) and labels not in ("class", "continuous"):
        raise ValueError(
            f"loss.labels must be 'class' or 'continuous'; found {labels!r} of {_name(loss)}."
        )


class CallableLoss:
    """A user's loss: a function, not one of `metricfast.losses`.

    ``loss(Z, y)`` returns value and gradient. With a database of other points,
    ``loss(Z, y, Z_database, y_database, exclude=...)`` returns the value and two gradients. The
    loss gets `n_jobs` if it has that parameter. Its arguments are read-only.
    """

    def __init__(self, loss: Any) -> None:
        self._loss = loss

    def on(
        self, y: Array, weight: Any = None, *, y_database: Array | None, n_jobs: int | None
    ) -> BoundCallableLoss:
        """Return the loss of points with these labels, as `metricfast.losses` do."""
        if weight is not None:
            raise ValueError(f"sample_weight must be None: {_name(self._loss)} takes no weights.")
        return BoundCallableLoss(self, y, y if y_database is None else y_database, n_jobs)

    def __call__(
        self, Z: Array, y: Array, *database: Array, n_jobs: int | None = None, **options: Any
    ) -> tuple[float, Any]:
        """Value and gradient, in arrays that may be changed."""
        if not all(get_kernels().all_finite(points) for points in (Z, *database[:1])):
            raise LossOverflowError("Embedded points are not finite.")
        options |= _taken(self._loss, n_jobs=n_jobs)
        Z, y, database = _read_only(Z), _read_only(y), tuple(map(_read_only, database))
        try:
            inspect.signature(self._loss).bind(Z, y, *database, **options)
        except TypeError as error:
            raise TypeError(
                f"{_name(self._loss)} cannot be called as loss(Z, y, Z_database, y_database, "
                f"exclude=...): {error}. It is where anchors are not compared with each other "
                "alone: with database='all', Asymmetric, or a sampler of batches of which not all "
                "points are anchors."
                if database
                else f"{_name(self._loss)} cannot be called as loss(Z, y): {error}."
            ) from error
        except ValueError:  # no signature is known
            pass
        found = self._loss(Z, y, *database, **options)
        points = (Z, *database[:1])
        try:
            value, gradient = found
            gradients = [np.array(part, Z.dtype) for part in (gradient if database else [gradient])]
            value = float(value)
        except (TypeError, ValueError) as error:
            what = "(value, (gradient, gradient_database))" if database else "(value, gradient)"
            raise TypeError(
                f"{_name(self._loss)} must return {what}; found {found!r:.80}."
            ) from error
        shapes = [part.shape for part in gradients]
        if shapes != [part.shape for part in points]:
            raise ValueError(
                f"{_name(self._loss)} must return gradients of the shapes of its points, "
                f"{[part.shape for part in points]}; found {shapes}."
            )
        return value, tuple(gradients) if database else gradients[0]


class BoundCallableLoss:
    """A user's loss with its labels, called like a `BoundLoss`."""

    def __init__(self, loss: CallableLoss, y: Array, y_database: Array, n_jobs: int | None) -> None:
        self._loss, self._y, self._y_database, self._n_jobs = loss, y, y_database, n_jobs

    def __call__(self, Z: Array, rows: Any = None, at: slice | None = None) -> Any:
        """Value and gradient of points, of which some alone may be anchors."""
        if at is None or at == slice(0, len(Z)):
            return self._loss(Z, self._of(self._y, rows), n_jobs=self._n_jobs)
        anchors = np.arange(len(Z))[at]
        rows = np.arange(len(Z)) if rows is None else rows
        value, (of_anchors, upstream) = self.evaluate_two_sided(
            Z[anchors], Z, rows[anchors], rows, anchors
        )
        upstream[anchors] += of_anchors
        return value, upstream

    def evaluate_two_sided(
        self, Z: Array, Z_database: Array, rows: Any = None, of_database: Any = None,
        exclude: NDArray[np.int64] | None = None,
    ) -> Any:  # fmt: skip
        """Value and both gradients of points and a database."""
        labels = self._of(self._y, rows), self._of(self._y_database, of_database)
        return self._loss(Z, labels[0], Z_database, labels[1], exclude=exclude, n_jobs=self._n_jobs)

    def for_thread(self, loss: Any, n_jobs: int | None) -> BoundCallableLoss:
        """Return another loss on the same labels."""
        return BoundCallableLoss(CallableLoss(loss), self._y, self._y_database, n_jobs)

    @staticmethod
    def _of(labels: Array, rows: Any) -> Array:
        return labels if rows is None else labels[rows]


def initial_parameters(
    embedding: Embedding, X: Any, y: Array | None, rng: np.random.RandomState, *database: Any
) -> list[Array]:
    """Return the parameters that an embedding starts from, one for each of its weight decays.

    `database`: points and classes of the database, for an embedding of two kinds of points.
    """
    found = embedding.initialize(X, y, rng, *database)
    if not isinstance(found, (list, tuple)):
        raise TypeError(
            f"initialize of {_name(embedding)} must return a list of arrays; found {found!r:.80}."
        )
    n_decays = len(embedding.decays(0.0))
    if len(found) != n_decays:
        raise ValueError(
            f"decays of {_name(embedding)} must return one number for each of its {len(found)} "
            f"parameters; found {n_decays}."
        )
    return [np.ascontiguousarray(array, X.dtype) for array in found]


def prepared(
    sampler: Sampler, y: Array, batch_size: int | None, n_jobs: int | None, **options: Any
) -> Epoch:
    """Call `prepare` with what it takes."""
    batch_size = None if batch_size is None else int(batch_size)
    taken = _taken(sampler.prepare, batch_size=batch_size, n_jobs=n_jobs, **options)
    if "y_database" in options and "y_database" not in taken:
        raise ValueError(
            f"X_database must be None with {_name(sampler)}, whose prepare takes no y_database."
        )
    if batch_size is not None and "batch_size" not in taken:
        raise ValueError(
            f"batch_size must be None for {_name(sampler)}, whose prepare takes none; "
            f"found {batch_size!r}."
        )
    epoch = sampler.prepare(y, **taken)
    if not callable(epoch):
        raise TypeError(
            f"prepare of {_name(sampler)} must return a function that takes a RandomState and "
            f"iterates over batches; found {epoch!r:.80}."
        )
    return epoch


def checked_batches(
    epoch: Epoch, rng: np.random.RandomState, n: int, n_database: int | None = None
) -> Iterator[Batch]:
    """Iterate over batches of rows below n, of which there is one at least.

    With `n_database`, only anchors are rows below n; the others are rows of the database.
    """
    none = True
    for batch in epoch(rng):
        none = False
        if not isinstance(batch, tuple) or len(batch) != 2:
            raise TypeError(
                f"a sampler must give batches Batch(rows, n_anchors); found {batch!r:.80}."
            )
        rows, n_anchors = np.asarray(batch[0]), batch[1]
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or not len(rows):
            raise ValueError(f"a batch must hold indices of points; found rows {rows!r:.80}.")
        if not 1 <= n_anchors <= len(rows):
            raise ValueError(
                f"n_anchors must lie from 1 to {len(rows)}, the rows of the batch; "
                f"found {n_anchors}."
            )
        kinds = [("points", rows, n)]
        if n_database is not None:
            anchors, others = np.split(rows, [n_anchors])
            kinds = [("queries", anchors, n), ("database", others, n_database)]
            if not len(others):
                raise ValueError("a batch must hold rows of the database after its anchors.")
        for kind, some, limit in kinds:
            if some.min() < 0 or some.max() >= limit:
                raise ValueError(
                    f"rows of a batch must lie from 0 to {limit - 1}, as those of the {kind}; "
                    f"found {some.min()} to {some.max()}."
                )
        yield Batch(rows, int(n_anchors))
    if none:
        raise ValueError("the sampler gave no batch: an epoch must have one at least.")


def _taken(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """Return those options that a function takes by name."""
    try:
        known = inspect.signature(function).parameters
    except ValueError:
        return options
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values()):
        return options
    return {name: value for name, value in options.items() if name in known}


def _read_only(array: Array) -> Array:
    view: Array = array.view()
    view.flags.writeable = False
    return view


def _name(part: Any) -> str:
    return getattr(part, "__name__", type(part).__name__)
