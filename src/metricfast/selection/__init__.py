"""Choose between the given distance and learned distances by held-out data."""

from metricfast.selection._judge import Judge, Judgement

__all__ = ["Judge", "Judgement"]
