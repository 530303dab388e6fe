"""Validation of the parts and the data of learners of embeddings."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metricfast._core.arguments import (
    as_array,
    check_choice,
    check_range,
    check_together,
    did_you_mean,
)
from metricfast._core.checks import check_points
from metricfast._core.frames import check_alike
from metricfast._core.sources import Source
from metricfast._core.targets import (
    as_column,
    as_label_array,
    check_class_labels,
    check_classification_target,
    check_comparable,
    check_varies,
    encode_together,
    join_labels,
    known_codes,
    labels_of_samples,
)
from metricfast._core.types import Array
from metricfast._labels.distance import LabelDistance, continuous_labels
from metricfast._labels.tags import are_tags
from metricfast.embeddings import Embedding
from metricfast.losses._call import BaseLoss
from metricfast.losses._labels import tags_for
from metricfast.samplers import Sampler
from metricfast.training.adapters import check_labels
from metricfast.training.problem import is_continuous, is_learnable
from metricfast.training.samples import Samples, hold


def check_parts(
    loss: Any,
    embedding: Any,
    sampler: Any,
    *,
    database: str,
    candidate_fraction: float | None,
    by_batches: bool,
) -> None:
    """Raise TypeError or ValueError if loss, embedding and sampler are incompatible."""
    for name, part in (("loss", loss), ("embedding", embedding), ("sampler", sampler)):
        if isinstance(part, type):
            raise TypeError(f"{name} must be an object, not a class: give {part.__name__}().")
    if not callable(loss):
        raise TypeError(
            f"loss must be one of metricfast.losses or a function, got {loss!r}."
            + did_you_mean(loss, sys.modules["metricfast.losses"].__all__, "losses.{}()")
        )
    check_labels(loss)
    for name, part, base in (("embedding", embedding, Embedding), ("sampler", sampler, Sampler)):
        if not isinstance(part, base):
            room = base.__module__.removesuffix("._base")
            shown = f"{room.removeprefix('metricfast.')}.{{}}()"
            raise TypeError(
                f"{name} must be one of {room}, or of a class derived from its {base.__name__}; "
                f"got {part!r}.{did_you_mean(part, sys.modules[room].__all__, shown)}"
            )
    check_choice("database", database, ("batch", "all"))
    if candidate_fraction is not None:
        check_range("candidate_fraction", candidate_fraction, high=1, positive=True)
        if database != "all" or not by_batches or is_learnable(loss):
            raise ValueError(
                "candidate_fraction must be None unless database='all', the solver takes a "
                "step for each batch, and the loss has no table of proxies: it is the share of "
                f"the training points that a batch is compared with; got "
                f"{candidate_fraction!r}."
            )
    if is_learnable(loss) and embedding.asymmetric:
        raise ValueError(
            f"embedding must be of one kind of points for {type(loss).__name__}, which compares "
            "points with proxies: give Linear or MLP instead of Asymmetric, or another loss, such "
            "as SupCon."
        )
    if not getattr(loss, "has_anchors", True):
        _check_pairs(loss, embedding, sampler, database, by_batches)


def _check_pairs(
    loss: Any, embedding: Embedding, sampler: Sampler, database: str, by_batches: bool
) -> None:
    """Raise ValueError for parameters that a loss of pairs within a batch cannot use."""
    found = f"{type(loss).__name__}, which compares all points of a batch with each other"
    if embedding.asymmetric:
        raise ValueError(
            f"embedding must be of one kind of points for {found}: give Linear or MLP instead "
            "of Asymmetric, or another loss, such as RankNContrast."
        )
    if not by_batches:
        return
    if database == "all":
        raise ValueError(
            f"database must be 'batch' for {found}; raise batch_size to compare more, or "
            "choose another loss, such as RankNContrast."
        )
    if not getattr(sampler, "all_anchors", True):
        raise ValueError(
            f"sampler must make all points anchors for {found}: give "
            f"{type(sampler).__name__}(all_anchors=True), or Uniform()."
        )


def check_database(
    loss: Any, X_database: Any, y_database: Any, precomputed: bool, candidate_fraction: float | None
) -> None:
    """Raise ValueError for a database that does not fit its labels or the loss."""
    if X_database is None and y_database is None:
        return
    if not precomputed:
        check_together(X_database=X_database, y_database=y_database)
    name = type(loss).__name__
    if is_learnable(loss):
        raise ValueError(
            f"X_database must be None with {name}, whose database is a table of proxies: choose "
            "another loss, such as NCA or SupCon."
        )
    if not getattr(loss, "has_anchors", True):
        raise ValueError(
            f"X_database must be None with {name}, which compares all points of a batch with each "
            "other: choose another loss, such as RankNContrast."
        )
    if candidate_fraction is not None:
        raise ValueError(
            "candidate_fraction must be None with X_database: set database='batch', which draws "
            f"database points for each batch; found {candidate_fraction!r}."
        )


def load_points(
    learner: Any,
    X: Any,
    y: Any,
    loss: Any,
    embedding: Embedding,
    X_database: Any = None,
    y_database: Any = None,
    *,
    classes: ArrayLike | None = None,
    reset: bool = True,
    needed: tuple[str, str] | None = None,
) -> Samples:
    """Check points, labels, and a database if given.

    Sets `classes_` of the learner. `needed`: the reason why points must be in memory, or an empty
    string.
    """
    check_alike(y, y_database, ("y", "y_database"))
    continuous = is_continuous(loss)
    said = learner._said_label_distance
    tagged = not continuous and (are_tags(y) or are_tags(y_database))
    how: dict[str, Any] = {"accept_sparse": "csr", "accept_sources": True}
    apart = tagged or (said is not None and y is not None)  # checked apart from X
    if not apart:
        how["multi_output"] = continuous
        _check_columns(y, continuous, getattr(loss, "takes_tags", False))
    labels = "no_validation" if apart else y
    if reset:
        checked = learner._prepare_inputs(X, labels, ensure_min_samples=2, **how)
    else:
        checked = check_points(
            learner, X, labels, preprocessor=learner.preprocessor_, reset=False, order="C", **how
        )
    X, labels = (checked, y) if apart else checked
    X = hold(X, needed)
    if isinstance(X, Source) and learner.database == "all":
        raise ValueError(
            "database must be 'batch' for points that are read in chunks: set it, or raise "
            "scikit-learn's working_memory to twice the size of the points."
        )
    n = m = X.shape[0]
    if X_database is not None:
        X_database = _load_database(learner, X_database, embedding, reset, how)
        m = X_database.shape[0]
        dtype = np.result_type(X.dtype, X_database.dtype)
        X, X_database = (each.astype(dtype, copy=False) for each in (X, X_database))
    if continuous:
        if not apart:
            labels = continuous_labels(labels, "y")
            if reset:
                check_varies(labels)
            if y_database is not None:
                y_database = continuous_labels(y_database, "y_database")
        distance, labels, of_database = learner._bind_labels(labels, y_database, (n, m))
        _check_label_shape(learner, labels, reset)
        if apart and reset and X_database is None and distance.all_zero(labels):
            raise ValueError("y must not be constant: all labels are at distance 0.")
        of_database = None if X_database is None else of_database
        return _samples(X, labels, X_database, of_database, distance=distance)
    if tagged:
        tags, of_database = tags_for(loss, labels, y_database, n, m)
        learner.classes_ = np.arange(tags.shape[1])
        return _samples(X, tags, X_database, of_database)
    if X_database is not None:
        labels = _joined(labels, y_database, m)
    codes = _class_codes(learner, labels, loss, classes, reset)
    of_database = None if X_database is None else codes[n:]
    return _samples(X, codes[:n], X_database, of_database, classes=learner.classes_)


def _samples(
    X: Any, labels: Any, X_database: Any, of_database: Any, *,
    classes: Array | None = None, distance: LabelDistance | None = None,
) -> Samples:  # fmt: skip
    own = np.empty(0) if classes is None else classes
    found = Samples(X, labels, own, distance=distance)
    if X_database is None:
        return found
    return replace(found, database=replace(found, X=X_database, labels=of_database))


def _check_columns(y: Any, continuous: bool, takes_tags: bool) -> None:
    """Raise ValueError, with advice, for labels with more columns than the loss takes."""
    listed = isinstance(y, (list, tuple))
    shape: tuple[int, ...] = as_array(y, "y").shape if listed else getattr(y, "shape", ())
    if continuous and len(shape) > 2:
        raise ValueError(
            f"Found array with dim {len(shape)}, while dim <= 2 is required for y. Give "
            "y.reshape(len(y), -1), or a label_distance that takes labels of this shape."
        )
    if not continuous and shape[1:] not in ((), (1,)):
        several = "For several classes, give booleans, y.astype(bool), or a sparse matrix. "
        raise ValueError(
            f"y should be a 1d array of classes; found shape {shape}. "
            f"{several if takes_tags else ''}For one-hot rows, give y.argmax(axis=1)."
        )


def _load_database(
    learner: Any, X_database: Any, embedding: Embedding, reset: bool, how: dict[str, Any]
) -> Any:
    """Check points of a database, and load them into memory."""
    how = {**how, "order": "C"}
    how.pop("multi_output", None)
    if embedding.asymmetric:
        database = learner._database_points(X_database, reset=reset, **how)
    else:
        try:
            database = check_points(
                learner, X_database, preprocessor=learner.preprocessor_, reset=False,
                name="X_database", **how,
            )  # fmt: skip
        except ValueError as error:
            if np.shape(X_database)[1:] in ((), (learner.n_features_in_,)):
                raise
            of = "" if hasattr(learner, "embedding") else "EmbeddingLearner with "
            raise ValueError(
                f"{error} For a database of other features, give {of}"
                "embedding=Asymmetric(query, database)."
            ) from error
    reason = f"{type(learner).__name__} needs in memory"
    return hold(database, (reason, "give fewer points"), "X_database")


def _joined(y: Any, y_database: Any, m: int) -> Array:
    """Return the class labels of queries and database."""
    labels, of_database = as_column(y, "y"), labels_of_samples(y_database, m, "y_database")
    check_class_labels(of_database, "y_database")
    check_comparable(of_database, as_label_array(labels, "y"), "y_database")
    return join_labels(as_label_array(labels, "y"), of_database)


def _class_codes(
    learner: Any, y: Array, loss: Any, classes: ArrayLike | None, reset: bool
) -> NDArray[np.int64]:
    """Return class indices, and set the learner's `classes_`."""
    if classes is None and reset:
        learner.classes_, codes = check_classification_target(y)
        return codes
    if classes is not None and reset:
        learner.classes_ = check_classification_target(classes, name="classes")[0]
    labels = np.asarray(y)
    check_class_labels(labels)
    if not (reset or is_learnable(loss)):
        # Labels are compared only within a call, so every call may bring new classes.
        check_comparable(labels, learner.classes_, "y")
        learner.classes_ = encode_together([learner.classes_, labels], "y")[0]
    advice = "which is none of the classes of the first call: give all of them there as `classes`"
    return known_codes(labels, learner.classes_, "y", advice)


def _check_label_shape(learner: Any, labels: Array, reset: bool) -> None:
    if reset:
        learner._label_shape = labels.shape[1:]
    known = getattr(learner, "_label_shape", labels.shape[1:])
    if labels.shape[1:] != known:
        raise ValueError(
            f"y has labels of shape {labels.shape[1:]}, and those before had {known}: "
            "call fit to begin with others."
        )


def share_label_distance(
    distance: LabelDistance | None, loss: Any, sampler: Any, said: Any
) -> None:
    """Pass the label distance to loss and sampler. Losses of the library have their own default."""
    if distance is None:
        return
    if hasattr(sampler, "label_distance"):
        sampler.label_distance = distance
    if hasattr(loss, "label_distance") and not (said is None and isinstance(loss, BaseLoss)):
        loss.label_distance = distance
