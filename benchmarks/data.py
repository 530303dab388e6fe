"""Data of the learners' cases."""

from __future__ import annotations

__all__ = [
    "chunks",
    "digits",
    "folder",
    "indexed_pairs",
    "load",
    "mnist",
    "official",
    "overlapping",
    "small_mnist",
    "synthetic",
    "tuples",
]

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, make_classification
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import NearestNeighbors

from benchmarks.case import Arrays

TEST_SIZE = 2000


def folder() -> Path:
    """Return the folder of the real data sets."""
    beside = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
    return Path(os.environ.get("METRICFAST_DATA", beside))


def synthetic(n: int) -> Arrays:
    """Return n training points, d=32, 10 classes of 2 clusters in 16 informative dimensions.

    The 3-NN test error of the Euclidean metric at n=2000, 5000 and 10000 is .1800, .1310 and .1255;
    if ties go to the lowest label, as in scikit-learn, .1875, .1390 and .1285.
    """
    x, y = make_classification(
        n_samples=n + TEST_SIZE,
        n_features=32,
        n_informative=16,
        n_redundant=0,
        n_classes=10,
        n_clusters_per_class=2,
        class_sep=1.5,
        random_state=0,
    )
    return {"X": x[:n], "y": y[:n], "X_test": x[n:], "y_test": y[n:]}


def overlapping(
    n: int, classes: int = 300, features: int = 128, spread: float = 0.8, n_test: int = TEST_SIZE
) -> Arrays:
    """Return n training points in float32, from overlapping classes with two clusters each.

    Cluster centres differ only in a quarter of the directions, with `spread` times the standard
    deviation of points around them. A random rotation with unequal scales hides these directions.
    """
    rng = np.random.default_rng(0)
    informative = max(1, features // 4)
    centres = np.zeros((2 * classes, features))
    centres[:, :informative] = spread * rng.standard_normal((2 * classes, informative))
    cluster = rng.integers(2 * classes, size=n + n_test)
    mix = np.linalg.qr(rng.standard_normal((features, features)))[0]
    x = centres[cluster] + rng.standard_normal((n + n_test, features))
    x = (x * np.exp(rng.standard_normal(features) / 2) @ mix).astype(np.float32)
    y = cluster // 2
    return {"X": x[:n], "y": y[:n], "X_test": x[n:], "y_test": y[n:]}


def digits() -> Arrays:
    """Return scikit-learn's digits, with a fifth of them as test points."""
    x, y = load_digits(return_X_y=True)
    split = train_test_split(x, y, test_size=0.2, stratify=y, random_state=0)
    return dict(zip(("X", "X_test", "y", "y_test"), split, strict=True))


def chunks() -> Arrays:
    """Return 10000 synthetic points, in chunks of 20 points with the same label."""
    arrays = synthetic(10_000)
    order = np.argsort(arrays["y"], kind="stable")
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    first = np.searchsorted(arrays["y"][order], arrays["y"])
    return arrays | {"chunks": arrays["y"] * 1000 + (place - first) // 20}


def tuples(kind: str, n: int, n_test: int = 10_000) -> Arrays:
    """Return random tuples of 5000 synthetic points, as indices, consistent with the labels.

    Half of the pairs are similar; the first two points of triplets and quadruplets share a class.
    """
    arrays = synthetic(5000)
    x, y = arrays["X"], arrays["y"]
    rng = np.random.RandomState(0)
    total = n + n_test
    members = [np.flatnonzero(y == label) for label in np.unique(y)]
    first = rng.randint(len(x), size=total)
    alike = np.array([rng.choice(members[label]) for label in y[first]])
    others = rng.randint(len(x), size=(total, 50))
    wrong = np.take_along_axis(
        others, (y[others] != y[first][:, None]).argmax(axis=1)[:, None], axis=1
    )[:, 0]
    if kind == "pairs":
        similar = rng.rand(total) < 0.5
        index = np.column_stack([first, np.where(similar, alike, wrong)])
        labels = np.where(similar, 1, -1)
        return {
            "X": x,
            "index": index[:n],
            "y": labels[:n],
            "index_test": index[n:],
            "y_test": labels[n:],
        }
    columns = [first, alike, wrong] if kind == "triplets" else [first, alike, first, wrong]
    index = np.column_stack(columns)
    return {"X": x, "index": index[:n], "index_test": index[n:]}


def indexed_pairs() -> Arrays:
    """Return a million random pairs of rows of 20000 points of dimension 128, and a map to 64."""
    rng = np.random.RandomState(0)
    x, linear = rng.standard_normal((20_000, 128)), rng.standard_normal((64, 128))
    return {"X": x, "L": linear, "index": rng.randint(len(x), size=(1_000_000, 2))}


def load(name: str) -> Arrays:
    """Return an unscaled data set with its official split, or all points as training points."""
    with np.load(folder() / f"{name}.npz") as saved:
        x, y = saved["X"], saved["y"]
        test = saved["split"] == 1 if "split" in saved else np.zeros(len(x), bool)
    return {"X": x[~test], "y": y[~test], "X_test": x[test], "y_test": y[test]}


def official(name: str, components: int | None = None) -> Arrays:
    """Return a data set with its official split, centred, projected by PCA and scaled.

    All features are divided by one number, so Euclidean neighbours do not change. Afterwards, the
    root mean squared distance to the third nearest point of the class is 1, the natural unit of
    LMNN's margin and NCA's softmax.
    """
    arrays = load(name)
    x, x_test = (arrays[key].astype(np.float64) for key in ("X", "X_test"))
    mean = x.mean(axis=0)
    x, x_test = x - mean, x_test - mean
    if components is not None:
        pca = PCA(components, svd_solver="full").fit(x)
        x, x_test = pca.transform(x), pca.transform(x_test)
    third = [
        NearestNeighbors(n_neighbors=3).fit(members).kneighbors()[0][:, 2]
        for members in (x[arrays["y"] == label] for label in np.unique(arrays["y"]))
    ]
    unit = np.sqrt(np.mean(np.concatenate(third) ** 2))
    return arrays | {"X": x / unit, "X_test": x_test / unit}


def mnist() -> Arrays:
    """Return MNIST with intensities from 0 to 1 in float32."""
    arrays = load("mnist")
    return arrays | {name: arrays[name].astype(np.float32) / 255 for name in ("X", "X_test")}


def small_mnist() -> tuple[np.ndarray, np.ndarray]:
    """Return MNIST with 14 x 14 pixels (means of four pixels each), and its classes."""
    with np.load(folder() / "mnist.npz") as saved:
        x, y = saved["X"].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)), saved["y"]
    return x.reshape(len(x), -1).astype(np.float64), y
