"""Plots of fitted learners, with the interface of scikit-learn's displays; need matplotlib.

The `from_...` methods of a display compute the data and draw them, into `ax` if given. The
attributes hold the data, `ax_` the axes and `figure_` the figure. `plot` draws again.
"""

try:
    import matplotlib  # noqa: F401
except ImportError as error:
    raise ImportError("plotting needs matplotlib: pip install matplotlib") from error

from metricfast.plotting._choices import ComparisonDisplay, JudgementDisplay
from metricfast.plotting._embedding import EmbeddingDisplay, plot_before_after
from metricfast.plotting._loss_curve import LossCurveDisplay
from metricfast.plotting._neighbors import NeighborsDisplay
from metricfast.plotting._pair_score import PairScoreDisplay
from metricfast.plotting._relevance import FeatureRelevanceDisplay
from metricfast.plotting._retrieval import RetrievalDisplay
from metricfast.plotting._votes import VoteDisplay

__all__ = [
    "ComparisonDisplay",
    "EmbeddingDisplay",
    "FeatureRelevanceDisplay",
    "JudgementDisplay",
    "LossCurveDisplay",
    "NeighborsDisplay",
    "PairScoreDisplay",
    "RetrievalDisplay",
    "VoteDisplay",
    "plot_before_after",
]
