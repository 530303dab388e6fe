"""Cases: the parts of training an embedding other than the loss, and a whole training."""

from __future__ import annotations

__all__ = ["embedding", "mlp_batch", "table_batch", "tiled_poses"]

import os
from functools import partial
from itertools import pairwise

import numpy as np

from benchmarks import data
from benchmarks.case import OURS, Arrays, Case, Entry
from benchmarks.targets import SecondsAtMost, TimesAtMost

CORES = (os.cpu_count() or 1,)
LAYERS, BATCH = (784, 256, 64), 512
ANCHORS = 1024  # anchors of a batch of table rows


def _normal(n: int, d: int) -> Arrays:
    return {"Y": np.random.default_rng(0).standard_normal((n, d))}


def tiled_poses(n: int = 12_000) -> Arrays:
    """Return the joint positions of MPII Human Pose, repeated with jitter."""
    with np.load(data.folder() / "mpii_poses.npz") as saved:
        poses = saved["Y"].reshape(-1, 32).astype(np.float64)
    labels = np.tile(poses, (-(-n // len(poses)), 1))[:n]
    return {"Y": labels + np.random.default_rng(0).standard_normal(labels.shape)}


def mlp_batch() -> Arrays:
    """Return a batch of 64 classes, and the layers of a perceptron with He initialisation."""
    rng = np.random.default_rng(0)
    y = np.arange(BATCH) // 8
    x = rng.standard_normal((BATCH, LAYERS[0])) + rng.standard_normal((BATCH, LAYERS[0]))[y]
    arrays = {"X": x.astype(np.float32), "y": y}
    for i, (inputs, width) in enumerate(pairwise(LAYERS)):
        weight = rng.standard_normal((width, inputs)) * np.sqrt(2 / inputs) / 10
        arrays |= {f"W{i}": weight.astype(np.float32), f"b{i}": np.zeros(width, np.float32)}
    return arrays


def table_batch(n: int = 20_000, anchors: int = ANCHORS) -> Arrays:
    """Return a table of ten classes, a batch with half of the other rows, and initial weights."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, n)
    x = rng.standard_normal((n, 20)) + 0.7 * rng.standard_normal((10, 20))[y]
    rows = rng.permutation(n)[: anchors + (n - anchors) // 2]
    shapes = {"c": (20, 16), "A": (8, 32), "a": (8,), "L": (128, 160)}
    scales = {"c": 0.3, "A": 0.1, "a": 0.1, "L": 0.05}
    start = {name: scales[name] * rng.standard_normal(shape) for name, shape in shapes.items()}
    arrays = {"X": x, **start}
    return {name: array.astype(np.float32) for name, array in arrays.items()} | {
        "y": y,
        "rows": rows,
    }


def _check_step(
    arrays: Arrays, digests: dict[str, Arrays], tolerance: float = 1e-4
) -> dict[str, str]:
    if not {OURS, "torch"} <= set(digests):
        return {}
    ours, theirs = digests[OURS], digests["torch"]
    error = np.abs(ours["gradient"] - theirs["gradient"]).max() / np.abs(ours["gradient"]).max()
    error = max(error, abs(ours["value"] / theirs["value"] - 1))
    return {} if error <= tolerance else {OURS: f"disagrees with torch: relative error {error:.1e}"}


def _check_neighbors(arrays: Arrays, digests: dict[str, Arrays]) -> dict[str, str]:
    """Check that the neighbours of some anchors are as near as the nearest points."""
    labels, complaints = arrays["Y"], {}
    for name, digest in digests.items():
        for anchor, found in zip(digest["anchors"], digest["neighbors"], strict=True):
            distances = np.linalg.norm(labels - labels[anchor], axis=1)
            distances[anchor] = np.inf
            nearest = np.sort(distances)[: len(found)]
            if not np.allclose(np.sort(distances[found]), nearest, rtol=1e-9):
                complaints[name] = f"other neighbours for anchor {anchor}"
    return complaints


def _sampler(name: str, title: str, arrays: object, seconds: float) -> Case:
    return Case(
        f"sampler-{name}",
        f"neighbours in label space for dense triplets, {title}",
        arrays,  # type: ignore[arg-type]
        [
            Entry(OURS, OURS, "metricfast.dense_triplets", threads=CORES),
            Entry("scikit-learn", "scikit-learn", "sklearn.label_neighbors", rounds=3),
        ],
        targets=[SecondsAtMost(seconds)],
        check=_check_neighbors,
        when="normal",
    )


def _kin40k() -> Arrays:
    with np.load(data.folder() / "kin40k.npz") as saved:
        return {name: saved[name] for name in ("X", "Y")}


def embedding() -> list[Case]:
    """Return the cases."""
    step = Case(
        "mlp-step",
        f"perceptron {'-'.join(map(str, LAYERS))}, batch {BATCH}: forward, contrastive loss, "
        "backward, update, float32",
        mlp_batch,
        [
            Entry(OURS, OURS, "metricfast.mlp_step", threads=CORES),
            Entry("torch", "torch", "torch_losses.mlp_step"),
        ],
        targets=[TimesAtMost("torch", 1.1)],
        check=_check_step,
        when="normal",
    )
    table = Case(
        "tabular-nca-step",
        f"periodic features of 20 numbers to 128 dimensions, batch {ANCHORS} and half of 20000 "
        "points: forward, NCA, backward, AdamW, float32",
        table_batch,
        [
            Entry(OURS, OURS, "metricfast.tabular_step", {"n_anchors": ANCHORS}, threads=CORES),
            Entry("torch", "torch", "torch_losses.tabular_step", {"n_anchors": ANCHORS}),
        ],
        targets=[TimesAtMost("torch", 0.5)],
        check=partial(_check_step, tolerance=1e-3),
        when="normal",
    )
    anchors = {"1 anchor a batch": 1, "8 anchors a batch": 8}
    scale = Case(
        "log-ratio-kin40k",
        "log-ratio learner, linear to 16 dimensions, 40000 x 8, 10 epochs of dense triplets",
        _kin40k,
        [
            Entry(
                label, OURS, "metricfast.log_ratio_fit", {"n_anchors": n}, threads=CORES, rounds=1
            )
            for label, n in anchors.items()
        ],
        targets=[SecondsAtMost(60, label) for label in anchors],
        warm=False,
        when="normal",
    )
    return [
        _sampler("1d", "100000 x 1", partial(_normal, 100_000, 1), 0.1),
        _sampler("3d", "100000 x 3", partial(_normal, 100_000, 3), 0.5),
        _sampler("32d", "12000 poses x 32", tiled_poses, 0.3),
        step,
        table,
        scale,
    ]
