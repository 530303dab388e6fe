"""Scores: values of queries, mean and confidence interval, chance level and oracle."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import stats

from metricfast._core.types import Array, Floats


@dataclass(frozen=True, repr=False)
class Score:
    """One metric: a value for each query, or each fold of a cross-validation, with its baselines.

    Attributes
    ----------
    values : ndarray of shape (n,)
        NaN if the metric is not defined, such as for a query without a reference of its class. All
        other attributes leave these queries out.
    chance : float
        Mean over queries of the expected value of a random order.
    oracle : float
        Mean over queries of the value of the best possible order.
    confidence : float
        Of :attr:`interval`.
    bounds : (float, float)
        Lowest and highest value of the metric.
    binary : bool
        Whether every value is 0 or 1.
    """

    values: Floats
    chance: float
    oracle: float
    confidence: float = 0.95
    bounds: tuple[float, float] = (-np.inf, np.inf)
    binary: bool = False

    @property
    def defined(self) -> Floats:
        """The values that are not NaN."""
        found: Floats = self.values[~np.isnan(self.values)]
        return found

    @property
    def n_undefined(self) -> int:
        """Number of queries without a defined value."""
        return len(self.values) - len(self.defined)

    @property
    def mean(self) -> float:
        """The mean of the defined values."""
        return float(self.defined.mean())

    @property
    def interval(self) -> tuple[float, float]:
        """Confidence interval of the mean: Wilson's for binary values, else Student's, clipped.

        For a single value, Student's interval is the whole range between the bounds.
        """
        n, (least, most) = len(self.defined), self.bounds
        if self.binary:
            hits = stats.binomtest(int(self.defined.sum()), n)
            low, high = hits.proportion_ci(self.confidence, method="wilson")
            return float(low), float(high)
        if n < 2:
            return self.bounds
        half = stats.t.ppf((1 + self.confidence) / 2, n - 1) * stats.sem(self.defined)
        return max(least, self.mean - float(half)), min(most, self.mean + float(half))

    def __repr__(self) -> str:
        """Return the mean with its interval and baselines as text."""
        low, high = self.interval
        return (
            f"Score(mean={self.mean:.4f}, interval=[{low:.4f}, {high:.4f}], "
            f"chance={self.chance:.4f}, oracle={self.oracle:.4f}, n={len(self.defined)})"
        )


class RetrievalReport(dict[str, Score]):
    """A dictionary of scores by metric name, displayed as a table."""

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, one row a metric.

        Returns
        -------
        DataFrame
            With the columns "mean", "low" and "high" (the interval), "chance", "oracle", "n" (the
            values that are defined) and "left_out" (those that are not).

        Raises
        ------
        ImportError
            Without pandas.
        """
        try:
            from pandas import DataFrame
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        columns = ["mean", "low", "high", "chance", "oracle", "n", "left_out"]
        rows = [
            (s.mean, *s.interval, s.chance, s.oracle, len(s.defined), s.n_undefined)
            for s in self.values()
        ]
        return DataFrame(rows, list(self), columns)

    def __repr__(self) -> str:
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


def score_of(
    results: Array,
    confidence: float,
    bounds: tuple[float, float] = (0.0, 1.0),
    binary: bool = False,
) -> Score:
    """Return the score of values, chance and oracle of each query; some values are not NaN."""
    values, *baselines = results
    chance, oracle = (float(each[~np.isnan(values)].mean()) for each in baselines)
    return Score(np.clip(values, *bounds), chance, oracle, confidence, bounds, binary)  # rounded


def check_confidence(value: Any) -> None:
    """Raise ValueError unless `value` is a confidence level."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise ValueError(f"confidence must lie between 0 and 1; found {value!r}.")
