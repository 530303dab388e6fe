"""Cases: value and gradient of losses on a batch, with PyTorch and pytorch-metric-learning."""

from __future__ import annotations

__all__ = ["batch", "log_ratio", "losses", "of_classes", "scaling"]

import os
from functools import partial
from typing import Any

import numpy as np

from benchmarks.calls import MARGIN
from benchmarks.case import OURS, Arrays, Case, Entry, Level, Target
from benchmarks.loss_definitions import DEFINITIONS
from benchmarks.targets import GrowthAtMost, MemoryAtMost, Speedup

CORES = (os.cpu_count() or 1,)
PML = "pytorch-m.-l."
WIDTH, PER_CLASS = 128, 8
TOLERANCE = 1e-3
SCALING = (256, 512, 1024, 2048, 4096, 8192)


def batch(size: int, *, continuous: bool) -> Arrays:
    """Return embeddings in float32 and labels.

    Continuous labels have 3 dimensions. Classes have 8 points each. All points are on the unit
    sphere; the spread within classes is twice the spread of class centres.
    """
    rng = np.random.default_rng(0)
    z = rng.standard_normal((size, WIDTH))
    if continuous:
        labels = rng.standard_normal((size, 3))
        return {"Z": z.astype(np.float32), "Y": labels.astype(np.float32)}
    y = np.arange(size) // PER_CLASS
    z += rng.standard_normal((size, WIDTH))[y] / 2
    z /= np.linalg.norm(z, axis=1)[:, None]
    return {"Z": z.astype(np.float32), "y": y}


def check(loss: str, arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    """Compare values and gradients with the definition.

    Gradients are compared by norm, because rounding in float32 moves some of half a million pairs
    across a margin.
    """
    labels = arrays["Y"].astype(np.float64) if "Y" in arrays else arrays["y"]
    value, gradient = DEFINITIONS[loss](arrays["Z"].astype(np.float64), labels)
    complaints = {}
    for label, digest in digests.items():
        of_value = abs(digest["value"] - value) / abs(value)
        of_gradient = np.linalg.norm(digest["gradient"] - gradient) / np.linalg.norm(gradient)
        if not max(of_value, of_gradient) <= TOLERANCE:
            complaints[label] = (
                f"disagrees: relative error of the value {of_value:.1e}, "
                f"of the gradient {of_gradient:.1e}"
            )
    return complaints


def _ours(loss: str, **params: Any) -> Entry:
    return Entry(OURS, OURS, "metricfast.loss", {"name": loss, **params}, threads=CORES)


def log_ratio(size: int, loop: float, vectorized: float, when: Level) -> Case:
    """Return the case of the log-ratio loss; `when` is the level of the peer in O(B^3) memory."""
    call = "torch_losses.log_ratio"
    entries = [
        _ours("LogRatio", eps_distance=0.0, eps_log=0.0),
        Entry("torch, loop", "torch", call, {"loop": True}, rounds=3),
        Entry("torch, vectorised", "torch", call, {"loop": False}, when=when, rounds=3),
    ]
    return Case(
        f"loss-log-ratio-{size}",
        f"log-ratio loss and gradient, all anchors and pairs of {size} x {WIDTH}, float32",
        partial(batch, size, continuous=True),
        entries,
        targets=[Speedup("torch, loop", loop), Speedup("torch, vectorised", vectorized)],
        check=partial(check, "LogRatio"),
        when="normal",
    )


def of_classes(
    loss: str,
    size: int,
    factor: float | None,
    ours: dict[str, Any],
    theirs: dict[str, Any],
    *more: Target,
) -> Case:
    """Return the case of a loss of class labels."""
    return Case(
        f"loss-{loss.lower()}-{size}",
        f"{loss} loss and gradient, {size} x {WIDTH}, {PER_CLASS} per class, float32",
        partial(batch, size, continuous=False),
        [_ours(loss, **ours), Entry(PML, PML, "pml.loss", theirs)],
        targets=[*more] if factor is None else [Speedup(PML, factor), *more],
        check=partial(check, loss),
        when="normal",
    )


def scaling() -> Case:
    """Return the case of time and memory of the log-ratio loss as functions of the batch size."""
    sizes = {f"B = {size}": size for size in SCALING}
    entries = []
    for label, size in sizes.items():
        entry = _ours("LogRatio", rows=size)
        entry.label = label
        entries.append(entry)
    return Case(
        "loss-log-ratio-scaling",
        f"log-ratio loss and gradient of B x {WIDTH}, float32",
        partial(batch, max(SCALING), continuous=True),
        entries,
        targets=[GrowthAtMost(sizes, 2.1), MemoryAtMost(120, f"B = {max(SCALING)}")],
        when="normal",
    )


def losses() -> list[Case]:
    """Return all cases of losses."""
    squared = {"distance": "LpDistance", "power": 2}
    products = {"distance": "DotProductSimilarity"}
    triplet = {"name": "TripletMarginLoss", "margin": 0.2, **squared}
    nca = {"name": "NCALoss", **squared}
    contrastive = {"name": "ContrastiveLoss", "neg_margin": MARGIN, "distance": "LpDistance"}
    similarity = {"name": "MultiSimilarityLoss", "alpha": 2, "beta": 50, "base": 0.5, **products}
    sup_con = {"name": "SupConLoss", "temperature": 0.1, **products}
    found = [
        log_ratio(256, 25, 25, "normal"),
        log_ratio(1024, 200, 200, "full"),
        scaling(),
        of_classes("Triplet", 256, 15, {}, triplet),
        of_classes("Triplet", 1024, 150, {}, triplet, MemoryAtMost(30)),
    ]
    for loss, factor, ours, theirs in (
        ("Contrastive", 2, {"neg_margin": MARGIN}, contrastive),
        ("MultiSimilarity", 10, {}, similarity),
        ("SupCon", 3, {}, sup_con),
        ("NCA", 4, {"form": "log", "reduction": "mean"}, nca),
    ):
        found.append(of_classes(loss, 256, None, ours, theirs))
        found.append(of_classes(loss, 1024, factor, ours, theirs))
    return found
