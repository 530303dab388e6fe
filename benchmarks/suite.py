"""The list of cases."""

from __future__ import annotations

__all__ = ["cases"]

from benchmarks.case import LEVELS, Case, Level
from benchmarks.embedding import embedding
from benchmarks.family import family
from benchmarks.imports import imports
from benchmarks.kernels import inference, inference_epoch, neighbors, pairwise, soft_votes
from benchmarks.learners import fit, mnist, overlapping
from benchmarks.losses import losses
from benchmarks.quality import PROTOCOLS, quality
from benchmarks.scale import GIGABYTES, SMALL, million, scale
from benchmarks.scale_dask import scale_dask
from benchmarks.search import searches
from benchmarks.similarity import similarities


def cases(level: Level = "normal", only: list[str] | None = None) -> list[Case]:
    """Return the cases of a run; `only` selects cases of any level by parts of their names."""
    found = [imports()]
    found += [pairwise(dtype) for dtype in ("float32", "float64")]
    found += [neighbors(dtype) for dtype in ("float32", "float64")]
    found += [soft_votes(dtype) for dtype in ("float32", "float64")]
    found += searches()
    found += similarities()
    found += [inference("separate", 0.5), inference("overlapping", 0.0)]
    # The scale makes distances comparable to the cost of a wrong answer.
    found += [inference("near", 0.5, 0.05), inference("near-overlapping", 0.0, 0.05)]
    found += [inference_epoch()]
    found += [
        fit("NCA", 2000, when="quick", peer="quick", metric_learn="normal"),
        fit("NCA", 5000, when="quick", peer="normal", metric_learn="full"),
        fit("LMNN", 5000, when="quick", peer="quick", metric_learn="normal"),
        fit("LMNN", 10000, when="normal", peer="normal", metric_learn="full"),
    ]
    found += [overlapping(n) for n in (5000, 10000)]
    found += [quality(protocol, learner) for protocol in PROTOCOLS for learner in ("NCA", "LMNN")]
    found += family()
    found += losses()
    found += embedding()
    found += [mnist(learner) for learner in ("NCA", "LMNN")]
    found += scale(SMALL)
    if level != "quick":
        found += scale(GIGABYTES)
    found += million()
    found += scale_dask()
    if only:
        return [case for case in found if any(part in case.name for part in only)]
    return [case for case in found if LEVELS.index(case.when) <= LEVELS.index(level)]
