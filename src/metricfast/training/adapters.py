"""Adapters of a user's losses, embeddings and samplers, which check their results."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metricfast._core.dispatch import get_kernels
from metricfast._core.scatter import MANY_FEATURES
from metricfast.embeddings import Embedding, Linear
from metricfast.embeddings._asymmetric import sides_of
from metricfast.exceptions import LossOverflowError
from metricfast.losses._bound import is_whole
from metricfast.losses._call import BaseLoss
from metricfast.samplers import Batch, Epoch, Sampler
from metricfast.training.samples import Samples
from metricfast.training.span import LazyBasis, trains_in_span

Array = NDArray[Any]


def check_labels(loss: Any) -> None:
    """Raise ValueError if a user's loss names an unknown kind of labels."""
    labels = getattr(loss, "labels", "class")
    if not isinstance(loss, BaseLoss) and labels not in ("class", "continuous"):
        raise ValueError(
            f"loss.labels must be 'class' or 'continuous'; found {labels!r} of {_name(loss)}."
        )


def takes_weights(loss: Any) -> bool:
    """Return whether a loss, of the library or a user's, takes weights of points."""
    return isinstance(loss, BaseLoss) or bool(_taken(loss, sample_weight=None))


class BoundFunction:
    """A user's loss with its labels and weights, called like a `BoundLoss`.

    ``loss(Z, y)`` returns value and gradient. With a database of other points,
    ``loss(Z, y, Z_database, y_database, exclude=...)`` returns the value and two gradients. The
    loss gets `n_jobs`, and weights as `sample_weight`, if it has these parameters. Its arguments
    are read-only.
    """

    has_lists = False

    def __init__(
        self, loss: Any, y: Array, weight: Array | None, y_database: Any, n_jobs: int | None
    ) -> None:
        if weight is not None and not takes_weights(loss):
            raise ValueError(
                f"sample_weight must be None: {_name(loss)} has no parameter sample_weight."
            )
        self.loss, self._y, self._weight, self._n_jobs = loss, y, weight, n_jobs
        self._y_database = y if y_database is None else y_database

    def __call__(self, Z: Array, rows: Any = None, anchors: Any = None) -> Any:
        """Return value and gradient of points; only those in `anchors` are anchors."""
        if is_whole(anchors, len(Z)):
            return self._call((Z, _of(self._y, rows)), rows)
        exclude = np.arange(len(Z))[anchors]
        labelled = exclude if rows is None else rows[anchors]
        value, (of_anchors, upstream) = self.evaluate_two_sided(
            Z[anchors], Z, labelled, rows, exclude
        )
        np.add.at(upstream, anchors, of_anchors)
        return value, upstream

    def evaluate_two_sided(
        self, Z: Array, Z_database: Array, rows: Any = None, database_rows: Any = None,
        exclude: NDArray[np.int64] | None = None,
    ) -> Any:  # fmt: skip
        """Return the value and both gradients, of points and of a database."""
        labels = _of(self._y, rows), _of(self._y_database, database_rows)
        return self._call((Z, labels[0], Z_database, labels[1]), rows, exclude=exclude)

    def for_thread(self, n_jobs: int | None) -> BoundFunction:
        """Return a copy for another thread."""
        own = copy.copy(self)
        own.loss, own._n_jobs = copy.copy(self.loss), n_jobs
        return own

    def _call(self, arguments: tuple[Array, ...], rows: Any, **options: Any) -> Any:
        """Call the loss; return value and gradients in writable arrays."""
        name, points = _name(self.loss), arguments[::2]
        if not all(get_kernels().all_finite(Z) for Z in points):
            raise LossOverflowError("Embedded points are not finite.")
        options |= _taken(self.loss, n_jobs=self._n_jobs)
        if self._weight is not None:
            options["sample_weight"] = _read_only(_of(self._weight, rows))
        arguments = tuple(map(_read_only, arguments))
        alone = len(points) == 1
        try:
            inspect.signature(self.loss).bind(*arguments, **options)
        except TypeError as error:
            raise TypeError(
                f"{name} cannot be called as loss(Z, y): {error}."
                if alone
                else f"{name} cannot be called as loss(Z, y, Z_database, y_database, "
                f"exclude=...): {error}. It is where anchors are not compared with each other "
                "alone: with database='all', Asymmetric, or a sampler of batches of which not all "
                "points are anchors."
            ) from error
        except ValueError:  # the signature is unknown
            pass
        found = self.loss(*arguments, **options)
        try:
            value, gradient = found
            gradients = [
                np.array(part, Z.dtype)
                for part, Z in zip([gradient] if alone else gradient, points, strict=True)
            ]
            value = float(value)
        except (TypeError, ValueError) as error:
            what = "(value, gradient)" if alone else "(value, (gradient, gradient_database))"
            raise TypeError(f"{name} must return {what}; found {found!r:.80}.") from error
        shapes = [part.shape for part in gradients]
        if shapes != [Z.shape for Z in points]:
            raise ValueError(
                f"{name} must return gradients of the shapes of its points, "
                f"{[Z.shape for Z in points]}; found {shapes}."
            )
        return value, gradients[0] if alone else tuple(gradients)


def _of(values: Array, rows: Any) -> Array:
    return values if rows is None else values[rows]


def initial_parameters(
    embedding: Embedding, X: Any, y: Array | None, rng: np.random.RandomState, *database: Any
) -> list[Array]:
    """Return an embedding's initial parameters; there must be one weight decay for each.

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


def in_wide_span(embedding: Embedding, samples: Samples, axes: str = "principal") -> Samples:
    """Return wide points as coordinates in their span and beyond, for square maps.

    Maps of few rows are trained as they are: their time and memory grow with the features anyway.
    So are maps of fewer features: steps of mini-batches along features are often better.
    `LazyBasis` describes the axes.
    """
    sides = [samples.X] if samples.database is None else [samples.X, samples.database.X]
    d = sides[0].shape[1]
    square = all(
        type(side) is Linear and side.n_components is None
        and isinstance(side.init, str) and side.init in ("auto", "identity")
        for side in sides_of(embedding)
    )  # fmt: skip
    alike = all(isinstance(X, np.ndarray) and X.shape[1] == d for X in sides)
    if not (square and alike and d >= MANY_FEATURES):
        return samples
    if not trains_in_span(sum(map(len, sides)), d):
        return samples
    basis = LazyBasis(np.concatenate(sides), axes)
    return replace(samples, span=basis).in_span_and_beyond()


def prepared(
    sampler: Sampler, y: Array, batch_size: int | None, n_jobs: int | None, **options: Any
) -> Epoch:
    """Call `prepare` with the arguments that it supports."""
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
    """Check a sampler's batches of rows below n; there must be at least one batch.

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
    """Return the options that a function accepts by name."""
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
