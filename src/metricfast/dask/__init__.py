"""Learners and searches on Dask: points stay on the workers of a cluster, which do the work.

Needs Dask: ``pip install dask distributed``.
"""

try:
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError("metricfast.dask needs Dask: pip install dask distributed") from error

from metricfast.dask._compare import compare
from metricfast.dask._learner import DistributedLearner
from metricfast.dask._search import kneighbors, retrieval_report

__all__ = ["DistributedLearner", "compare", "kneighbors", "retrieval_report"]
