"""Points that are not in memory: what reads them by blocks of rows."""

from metricfast._core.sources import Source
from metricfast._core.stores import Batches, Columns, Rows

__all__ = ["Batches", "Columns", "Rows", "Source"]
