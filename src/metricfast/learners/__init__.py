"""The learners, one file each."""

from __future__ import annotations

from metricfast.learners.lmnn import LMNN
from metricfast.learners.lsml import LSML, LSML_Supervised
from metricfast.learners.mmc import MMC, MMC_Supervised
from metricfast.learners.nca import NCA

__all__ = ["LMNN", "LSML", "MMC", "NCA", "LSML_Supervised", "MMC_Supervised"]
