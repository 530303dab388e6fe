"""What was measured: values, their mean and its interval, chance and oracle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

__all__ = ["RetrievalReport", "Score"]


@dataclass(frozen=True)
class Score:
    """One metric: a value for each query (or each fold of a cross-validation), and what to expect.

    Attributes
    ----------
    values : ndarray of shape (n,)
        NaN where the metric is not defined, such as for a query without a reference of its class;
        these are left out of everything below.
    chance : float
        The mean of what a random order of the references would have on average.
    oracle : float
        The mean of what the best possible order would have.
    confidence : float
        Of :attr:`interval`.
    """

    values: NDArray[np.float64]
    chance: float
    oracle: float
    confidence: float = 0.95

    @property
    def defined(self) -> NDArray[np.float64]:
        """The values that are not NaN."""
        found: NDArray[np.float64] = self.values[~np.isnan(self.values)]
        return found

    @property
    def n_undefined(self) -> int:
        """How many queries were left out."""
        return len(self.values) - len(self.defined)

    @property
    def mean(self) -> float:
        """The mean of the defined values."""
        return float(self.defined.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Student's t-interval of the mean; of a single value, the whole line."""
        n = len(self.defined)
        if n < 2:
            return -np.inf, np.inf
        half = stats.t.ppf((1 + self.confidence) / 2, n - 1) * stats.sem(self.defined)
        return self.mean - float(half), self.mean + float(half)


class RetrievalReport(dict[str, Score]):
    """Scores by the name of their metric; printing it prints a table."""

    def __str__(self) -> str:
        """Return the table."""
        width = max(map(len, self), default=0)
        lines = [f"{'':{width}}    mean  interval          chance  oracle  left out"]
        for name, score in self.items():
            low, high = score.interval
            lines.append(
                f"{name:{width}}  {score.mean:6.4f}  [{low:6.4f}, {high:6.4f}]  "
                f"{score.chance:6.4f}  {score.oracle:6.4f}  {score.n_undefined:8d}"
            )
        return "\n".join(lines)
