"""What learners of embeddings are given: their parameters and data, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import clone
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
from metricfast._labels.binding import agreed, bind_labels
from metricfast._labels.distance import LabelDistance
from metricfast.embeddings import Embedding
from metricfast.learners.base.trained import Callback, TrainedLearner
from metricfast.learners.embedding.metric import EmbeddedMetricMixin
from metricfast.losses._call import Loss
from metricfast.samplers import Sampler
from metricfast.training.chunks import held
from metricfast.training.objective import is_continuous, is_learnable
from metricfast.training.own_parts import check_labels

__all__ = ["EmbeddingInput", "share_label_distance"]

Array = NDArray[Any]
_OF_TRAINING = ("early_stopping", "n_iter_no_change", "random_state", "validation_fraction")


class EmbeddingInput(TrainedLearner, EmbeddedMetricMixin):
    """Base of learners of embeddings: parameters, with their defaults, and data."""

    _requires_y = True
    _solvers = ("adam", "adamw", "sgd", "lbfgs")
    _of_batches = (12, 4, 6)

    solver: str = "adam"
    learning_rate: float | None = None
    schedule: str = "constant"
    momentum: float = 0.9
    weight_decay: float = 0.0
    proxy_rate: float = 1.0
    batch_size: int | None = None
    max_epochs: int = 50
    database: str = "batch"
    label_distance: Any = None
    candidate_fraction: float | None = None

    def _parts(self) -> tuple[Any, Embedding, Sampler]:
        """Return loss, embedding and sampler."""
        raise NotImplementedError

    @property
    def _has_classes(self) -> bool:  # type: ignore[override]
        return not is_continuous(self._parts()[0])

    @property
    def _said_label_distance(self) -> Any:
        """What is said of label distances, by the learner, the loss or the sampler."""
        loss, _, sampler = self._parts()
        parts = {"the learner": self, "loss": loss, "sampler": sampler}
        said = agreed({name: getattr(part, "label_distance", None) for name, part in parts.items()})
        own = not isinstance(loss, Loss)  # one of the user's may do as it likes
        if said is not None and not (
            is_continuous(loss) and (own or hasattr(loss, "label_distance"))
        ):
            raise ValueError(
                f"label_distance must be None with {type(loss).__name__}, which compares no "
                f"distances of labels: found {said!r}. Choose another loss, such as LogRatio."
            )
        return said

    def _bind_labels(
        self, y: Any, y_database: Any = None, sizes: tuple[int, int] | None = None
    ) -> tuple[LabelDistance, Array, Array]:
        said = self._said_label_distance
        if said is None:
            said = getattr(self._parts()[0], "_default_label_distance", "euclidean")
            said = said.removeprefix("sq")  # scores are in the unit of the labels
        return bind_labels(said, y, y_database, sizes=sizes)

    def _check_parameters(self) -> tuple[Any, Embedding, Sampler, tuple[Callback, ...]]:
        loss, embedding, sampler = self._parts()
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
        check_choice("schedule", self.schedule, ("constant", "inverse", "cosine"))
        check_choice("database", self.database, ("batch", "all"))
        if self.learning_rate is not None:
            check_range("learning_rate", self.learning_rate, positive=True)
        check_range("momentum", self.momentum, high=1)
        check_range("weight_decay", self.weight_decay)
        check_range("proxy_rate", self.proxy_rate)
        if self.candidate_fraction is not None:
            check_range("candidate_fraction", self.candidate_fraction, high=1, positive=True)
            if self.database != "all" or self.solver == "lbfgs" or is_learnable(loss):
                raise ValueError(
                    "candidate_fraction must be None unless database='all', the solver takes a "
                    "step for each batch, and the loss has no table of proxies: it is the share of "
                    f"the training points that a batch is compared with; got "
                    f"{self.candidate_fraction!r}."
                )
        if is_learnable(loss) and embedding.asymmetric:
            raise ValueError(
                "the database of this loss is a table of its own: give an embedding of one kind of "
                "points, not Asymmetric."
            )
        if not getattr(loss, "has_anchors", True):
            self._check_pairs(loss, embedding, sampler)
        callbacks = self._check_training()
        return clone(loss, safe=False), clone(embedding), clone(sampler, safe=False), callbacks

    def _check_pairs(self, loss: Any, embedding: Embedding, sampler: Sampler) -> None:
        """Refuse what a loss of pairs among the points of a batch has no use for."""
        found = f"{type(loss).__name__}, which compares all points of a batch with each other"
        if embedding.asymmetric:
            raise ValueError(
                f"embedding must be of one kind of points for {found}: give Linear or MLP instead "
                "of Asymmetric, or another loss, such as RankNContrast."
            )
        if self.solver == "lbfgs":
            return
        if self.database == "all":
            raise ValueError(
                f"database must be 'batch' for {found}; raise batch_size to compare more, or "
                "choose another loss, such as RankNContrast."
            )
        if not getattr(sampler, "all_anchors", True):
            raise ValueError(
                f"sampler must make all points anchors for {found}: give "
                f"{type(sampler).__name__}(all_anchors=True), or Uniform()."
            )

    def _check_data(
        self,
        X: Any,
        y: Any,
        loss: Any,
        classes: ArrayLike | None = None,
        reset: bool = True,
        validate: bool = False,
    ) -> tuple[Any, Array, LabelDistance | None]:
        """Return points, class codes or continuous labels, and how far these are apart.

        Sets `classes_`.
        """
        continuous = is_continuous(loss)
        said = self._said_label_distance
        how: dict[str, Any] = {"accept_sparse": "csr", "accept_sources": True}
        apart = said is not None and y is not None  # labels that scikit-learn may not know
        if not apart:
            how["multi_output"] = continuous
        labels = "no_validation" if apart else y
        if reset:
            checked = self._prepare_inputs(X, labels, ensure_min_samples=2, **how)
        else:
            checked = check_points(
                self, X, labels, preprocessor=self.preprocessor_, reset=False, order="C", **how
            )
        X, labels = (checked, y) if apart else checked
        X = csr_array(X) if issparse(X) else held(X, self, validate)
        if isinstance(X, Source) and self.database == "all":
            raise ValueError(
                "database must be 'batch' for points of which there are more than memory_limit "
                "allows, or raise that by metricfast.set_config."
            )
        if continuous:
            if not apart:
                labels = _numbers(labels, reset)
            distance, labels, _ = self._bind_labels(labels, sizes=(X.shape[0],) * 2)
            self._check_label_shape(labels, reset)
            if apart and reset and distance.all_zero(labels):
                raise ValueError("y must not be constant: all labels are at distance 0.")
            return X, labels, distance
        y = labels
        if classes is None and reset:
            self.classes_, codes = check_classification_target(y)
            return X, codes, None
        if classes is not None and reset:
            self.classes_ = check_classification_target(classes, name="classes")[0]
        labels = np.asarray(y)
        check_class_labels(labels)
        check_comparable(labels, self.classes_, "y")
        if not (reset or is_learnable(loss)):
            # Labels of a call are compared with each other alone: there may always be new ones.
            self.classes_ = encode_together([self.classes_, labels], "y")[0]
        codes = codes_among(labels, self.classes_, "y")
        unknown = codes < 0
        if unknown.any():
            raise ValueError(
                f"y holds {labels[unknown][0]}, which is none of the classes of the first call: "
                "give all of them there as `classes`."
            )
        return X, codes, None

    def _check_label_shape(self, labels: Array, reset: bool) -> None:
        if reset:
            self._label_shape = labels.shape[1:]
        known = getattr(self, "_label_shape", labels.shape[1:])
        if labels.shape[1:] != known:
            raise ValueError(
                f"y has labels of shape {labels.shape[1:]}, and those before had {known}: "
                "call fit to begin with others."
            )

    def _decisive(self) -> dict[str, Any]:
        names = {*EmbeddingInput.__annotations__, *_OF_TRAINING}
        if self.schedule != "cosine":
            names -= {"max_epochs"}
        return {name: getattr(self, name) for name in sorted(names)}


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
