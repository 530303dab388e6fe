"""Study: losses of continuous labels with 32 numbers, the pose of a person.

    python -m benchmarks.study_poses [--seeds N] [--steps N]

Points are pictures of stick figures in clutter, with random brightness and thickness, drawn from
the joints of mpii_poses.npz. The distance of two labels is the root mean squared distance of their
16 joints, in units of half the height or width of a figure.

The methods, the perceptron, the number of steps and the six configurations are the same as in
`benchmarks.study_dimension`. Triplet losses have normalised embeddings, the log-ratio loss does
not. A configuration is chosen by nDCG on a validation part of the training points of the first
seed. Each seed then draws other pictures and another split: about 1300 training points, 200 queries
and a gallery of 500. For all methods, test people of other seeds may include people who chose the
configuration. "Oracle" searches with the labels themselves, "pixels" with the pictures, and
"chance" is the mean of random orders. The table has means and standard deviations over seeds.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import time
import warnings
from itertools import product

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import PCA

from benchmarks import data
from benchmarks.study_dimension import Method, Split, make_learner, validation
from metricfast.metrics import retrieval_report

BONES = [(6, 2), (2, 1), (1, 0), (6, 3), (3, 4), (4, 5), (6, 7), (7, 8), (8, 9)]
BONES += [(7, 12), (12, 11), (11, 10), (7, 13), (13, 14), (14, 15)]
SIDE = 20
DIMENSIONS = (16, 128)
METHODS = [
    Method(loss, dense, normalize=loss != "log-ratio")
    for loss, dense in product(("log-ratio", "triplet", "binary triplet"), (True, False))
]
NEAREST = (1, 5, 10)
COLUMNS = ["nDCG@50", *(f"label distance@{k}" for k in NEAREST)]

Scores = list[float]


def poses() -> np.ndarray:
    """Return joints, from -1 to 1, relative to the mean joint of each person."""
    with np.load(data.folder() / "mpii_poses.npz") as saved:
        joints = saved["Y"].astype(np.float64)
    joints -= joints.mean(axis=1, keepdims=True)
    scaled: np.ndarray = joints / np.abs(joints).max(axis=(1, 2), keepdims=True)
    return scaled


def draw(joints: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return pictures of SIDE x SIDE pixels, one per row."""
    axis = np.linspace(-1.3, 1.3, SIDE)
    pixels = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 1, 2)
    pictures = []
    for pose in joints:
        start, end = pose[np.array(BONES).T]
        bone = end - start
        share = ((pixels - start) * bone).sum(axis=-1) / np.maximum((bone**2).sum(axis=-1), 1e-9)
        nearest = start + np.clip(share, 0, 1)[..., None] * bone
        away = np.linalg.norm(pixels - nearest, axis=-1).min(axis=1)
        figure = np.exp(-((away / rng.uniform(0.06, 0.14)) ** 2))
        clutter = 4 * gaussian_filter(rng.normal(size=(SIDE, SIDE)), 2.5)
        pictures.append(rng.uniform(0.5, 1.5) * figure + clutter.ravel())
    return np.array(pictures)


def split(joints: np.ndarray, seed: int) -> Split:
    """Draw pictures, and training, query and gallery points."""
    rng = np.random.default_rng(seed)
    X, y = draw(joints, rng), joints.reshape(len(joints), -1) / 4
    cut = [len(X) * 65 // 100, len(X) * 75 // 100]
    parts = dict(
        zip(("train", "query", "gallery"), np.split(rng.permutation(len(X)), cut), strict=True)
    )
    X_train = X[parts["train"]]
    pca = PCA(100, random_state=0).fit(X_train)
    scale = pca.transform(X_train).std()
    Z = (pca.transform(X) / scale).astype(np.float32)
    given = {f"X_{part}": Z[rows] for part, rows in parts.items()}
    return given | {f"y_{part}": y[rows] for part, rows in parts.items()}


def scores(given: Split, queries: np.ndarray, gallery: np.ndarray) -> tuple[Scores, Scores]:
    """Return the scores of embedded points, and the scores of random rankings."""
    labels = given["y_query"], given["y_gallery"]
    found, chance = [], []
    for metric, ks in (("ndcg_at_k", (50,)), ("mean_label_distance_at_k", NEAREST)):
        for k in ks:
            score = retrieval_report(queries, labels[0], gallery, labels[1], metrics=metric, k=k)[
                metric
            ]
            found.append(score.mean)
            chance.append(score.chance)
    return found, chance


def judge(
    method: Method, config: dict[str, float], given: Split, dimension: int, seed: int, steps: int
) -> list[float]:
    """Train one embedding and return its scores."""
    learner = make_learner(method, config, given["y_train"], dimension, seed, steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(given["X_train"], given["y_train"])
    return scores(given, *(learner.transform(given[f"X_{part}"]) for part in ("query", "gallery")))[
        0
    ]


def row(name: str, found: list[list[float]]) -> str:
    """Return a row of the table: means and standard deviations over seeds."""
    mean, deviation = np.mean(found, axis=0), np.std(found, axis=0, ddof=min(1, len(found) - 1))
    cells = (f"{a:.3f} ± {b:.3f}" for a, b in zip(mean, deviation, strict=True))
    return f"| {name} | " + " | ".join(cells) + " |"


def main(argv: list[str] | None = None) -> None:
    """Run the study, and print its table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.study_poses",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=3, metavar="N")
    parser.add_argument("--steps", type=int, default=500, metavar="N")
    given = parser.parse_args(argv)
    begin = time.process_time()
    joints = poses()
    splits = [split(joints, seed) for seed in range(given.seeds)]
    print(f"| embedding | {' | '.join(COLUMNS)} |\n|---|" + "---:|" * len(COLUMNS))
    plain = [scores(each, each["X_query"], each["X_gallery"]) for each in splits]
    oracle = [scores(each, each["y_query"], each["y_gallery"])[0] for each in splits]
    print(row("chance", [chance for _, chance in plain]))
    print(row("pixels", [found for found, _ in plain]))
    print(row("oracle", oracle))
    inner = validation(splits[0])
    for dimension, method in product(DIMENSIONS, METHODS):
        tuning = [judge(method, c, inner, dimension, 0, given.steps)[0] for c in method.grid()]
        best = method.grid()[int(np.argmax(tuning))]
        found = [
            judge(method, best, each, dimension, seed, given.steps)
            for seed, each in enumerate(splits)
        ]
        print(row(f"{dimension}: {method.name}", found), flush=True)
    print(f"\n{time.process_time() - begin:.0f} s of processor time")


if __name__ == "__main__":
    main()
