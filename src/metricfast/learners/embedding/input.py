"""Validation of the parts and the data of learners of embeddings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils import check_array

from metricfast._core.arguments import check_choice, check_range
from metricfast._core.checks import check_points
from metricfast._core.sources import Source
from metricfast._core.targets import (
    check_class_labels,
    check_classification_target,
    check_comparable,
    check_regression_target,
    codes_among,
    encode_together,
)
from metricfast._core.types import Array
from metricfast._labels.distance import LabelDistance
from metricfast.embeddings import Embedding
from metricfast.losses._call import Loss
from metricfast.samplers import Sampler
from metricfast.training.chunks import hold
from metricfast.training.objective import is_continuous, is_learnable
from metricfast.training.own_parts import check_labels

__all__ = ["check_parts", "load_points", "share_label_distance"]


def check_parts(
    loss: Any,
    embedding: Any,
    sampler: Any,
    *,
    database: str,
    candidate_fraction: float | None,
    by_batches: bool,
) -> None:
    """Raise TypeError or ValueError for parts that do not go together."""
    if isinstance(loss, type):
        raise TypeError(
            f"loss must be an object, not a class: give {loss.__name__}(), found {loss!r}."
        )
    if not callable(loss):
        raise TypeError(f"loss must be one of metricfast.losses or a function, got {loss!r}.")
    check_labels(loss)
    for name, part, base in (
        ("embedding", embedding, Embedding),
        ("sampler", sampler, Sampler),
    ):
        if not isinstance(part, base):
            raise TypeError(
                f"{name} must be one of {base.__module__.removesuffix('._base')}, or of a "
                f"class derived from its {base.__name__}; got {part!r}."
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
            "the database of this loss is a table of its own: give an embedding of one kind of "
            "points, not Asymmetric."
        )
    if not getattr(loss, "has_anchors", True):
        _check_pairs(loss, embedding, sampler, database, by_batches)


def _check_pairs(
    loss: Any, embedding: Embedding, sampler: Sampler, database: str, by_batches: bool
) -> None:
    """Refuse what a loss of pairs among the points of a batch has no use for."""
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


def load_points(
    learner: Any,
    X: Any,
    y: Any,
    loss: Any,
    classes: ArrayLike | None = None,
    reset: bool = True,
    needed: tuple[str, str] | None = None,
) -> tuple[Any, Array, LabelDistance | None]:
    """Return points, class codes or continuous labels, and the distance of these labels.

    Sets `classes_` of the learner. `needed`: why the points must be in memory, if they must.
    """
    continuous = is_continuous(loss)
    said = learner._said_label_distance
    how: dict[str, Any] = {"accept_sparse": "csr", "accept_sources": True}
    apart = said is not None and y is not None  # labels that scikit-learn may not know
    if not apart:
        how["multi_output"] = continuous
    labels = "no_validation" if apart else y
    if reset:
        checked = learner._prepare_inputs(X, labels, ensure_min_samples=2, **how)
    else:
        checked = check_points(
            learner, X, labels, preprocessor=learner.preprocessor_, reset=False, order="C", **how
        )
    X, labels = (checked, y) if apart else checked
    X = csr_array(X) if issparse(X) else hold(X, needed)
    if isinstance(X, Source) and learner.database == "all":
        raise ValueError(
            "database must be 'batch' for points that are read in chunks: set it, or raise "
            "scikit-learn's working_memory to twice the size of the points."
        )
    if continuous:
        if not apart:
            labels = _numbers(labels, reset)
        distance, labels, _ = learner._bind_labels(labels, sizes=(X.shape[0],) * 2)
        _check_label_shape(learner, labels, reset)
        if apart and reset and distance.all_zero(labels):
            raise ValueError("y must not be constant: all labels are at distance 0.")
        return X, labels, distance
    y = labels
    if classes is None and reset:
        learner.classes_, codes = check_classification_target(y)
        return X, codes, None
    if classes is not None and reset:
        learner.classes_ = check_classification_target(classes, name="classes")[0]
    labels = np.asarray(y)
    check_class_labels(labels)
    check_comparable(labels, learner.classes_, "y")
    if not (reset or is_learnable(loss)):
        # Labels of a call are compared with each other alone: there may always be new ones.
        learner.classes_ = encode_together([learner.classes_, labels], "y")[0]
    codes = codes_among(labels, learner.classes_, "y")
    unknown = codes < 0
    if unknown.any():
        raise ValueError(
            f"y holds {labels[unknown][0]}, which is none of the classes of the first call: "
            "give all of them there as `classes`."
        )
    return X, codes, None


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
    """Tell loss and sampler how far labels are apart; a loss knows what it says by default."""
    if distance is None:
        return
    if hasattr(sampler, "label_distance"):
        sampler.label_distance = distance
    if hasattr(loss, "label_distance") and not (said is None and isinstance(loss, Loss)):
        loss.label_distance = distance


def _numbers(y: Any, vary: bool) -> NDArray[np.float64]:
    """Check labels that are numbers, or several numbers each, perhaps not all the same."""
    try:
        np.asarray(y, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must hold numbers: {error}. Say how far other labels are apart by label_distance."
        ) from error
    if np.ndim(y) < 2:
        return check_regression_target(y, vary)
    labels: NDArray[np.float64] = check_array(y, dtype=np.float64, input_name="y")
    if vary and (labels == labels[0]).all():
        raise ValueError("y must not be constant: all of its rows are the same.")
    return labels
