"""Points on disk or from an iterator: sources that read them in blocks of rows."""

from metricfast._core.sources import Source
from metricfast._core.stores import Batches, Columns, Rows

__all__ = ["Batches", "Columns", "Rows", "Source"]
