"""Labels of a comparison (classes or numbers), and scores of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metricfast._core.targets import as_label_array, check_class_labels, flatten_column
from metricfast._core.types import Array, Floats
from metricfast.metrics._selection import look_continuous


def shares(predicted: Any, labels: Array, variances: Floats | None) -> Floats:
    """Return the contribution of each point to the score, which is their mean.

    Classes: 1 or 0, for accuracy. Continuous labels: 1 - e²/σ², for R².
    """
    if variances is None:
        return np.asarray(predicted == labels, np.float64)
    squares = (np.asarray(predicted, np.float64) - labels).reshape(len(labels), -1) ** 2
    found: Floats = 1 - (squares / variances).mean(axis=1)
    return found


@dataclass(frozen=True)
class ComparedLabels:
    """Checked labels.

    `variances`: variances of the columns of continuous labels, or None for classes.
    """

    values: Array
    variances: Floats | None

    @classmethod
    def of(cls, y: Any, continuous: bool | None = None) -> ComparedLabels:
        """Check labels. If `continuous` is None, their values decide whether they are."""
        labels = as_label_array(y, "y")
        if not labels.ndim:
            raise ValueError(f"y must hold a label for each point, got {y!r}.")
        labels = flatten_column(labels, "y") if labels.shape[1:] == (1,) else labels
        if continuous is None:
            continuous = look_continuous(labels)
        if not continuous:
            check_class_labels(labels)
            if len(np.unique(labels)) < 2:
                raise ValueError("y must have two classes at least, got one.")
            return cls(labels, None)
        try:
            labels = labels.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"y must hold numbers with task='numbers': {error}") from error
        variances: Floats = labels.reshape(len(labels), -1).var(axis=0)
        if not (variances > 0).all():
            raise ValueError("y must vary, got the same continuous label for all points.")
        return cls(labels, variances)

    @property
    def continuous(self) -> bool:
        """Whether labels are continuous."""
        return self.variances is not None

    @property
    def score(self) -> str:
        """The name of the score."""
        return "R²" if self.continuous else "accuracy"

    def __str__(self) -> str:
        """Return a description of the labels."""
        return "continuous labels" if self.continuous else f"{len(np.unique(self.values))} classes"
