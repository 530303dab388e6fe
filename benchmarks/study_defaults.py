"""Study: does a learner with its default parameters help or hurt 3 nearest neighbours?

    python -m benchmarks.study_defaults [--data NAME]... [--learner NAME]... [--splits N]
    python -m benchmarks.study_defaults --few-points [--learner NAME]...
    python -m benchmarks.study_defaults --full-size [--data NAME]... [--learner NAME]...

Prints, for each data set and learner, the mean 3-NN test error in percent over stratified 80/20
splits: of this library, of metric-learn, and of the Euclidean distance. Both libraries use their
default parameters and the same splits. The table marks significantly worse errors, by a paired
t-test over splits at the 5 % level. The numbers are written to `results/defaults.json`. Learners
that metric-learn lacks have no counterpart. Features are not scaled. For letter, 3000 points are
drawn. A fit that takes longer than --timeout seconds counts as missing.

--few-points prints the nearest-neighbour error of learners with their default parameters, fitted to
about as many points as features: handwritten digits with 14 x 14 pixels, or with 8 x 8 pixels if
the data folder has none. Up to 1,500 other points are for testing. The last column is the choice of
`fit`.

--full-size compares the judge, early stopping and neither with 6,000 to 16,000 training points: the
3- and 5-NN test errors in percent, the iterations and the processor seconds, on one split of each.
PCA, and for covtype the standard deviations, are computed from training points.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.preprocessing import StandardScaler

import metricfast
from benchmarks import data
from benchmarks.objectives import neighbor_error, similarity_error, test_error
from benchmarks.peers import PeerFailedError, PeerMissingError, Worker
from benchmarks.published import HALF, worse

RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = {"metricfast": "metricfast", "metric-learn": "metric_learn"}
LEARNERS = [
    "Covariance",
    "LFDA",
    "RCA_Supervised",
    "NCA",
    "LMNN",
    "MLKR",
    "ITML_Supervised",
    "SDML_Supervised",
    "LSML_Supervised",
    "MMC_Supervised",
    "SCML_Supervised",
]
OURS = [
    "NeighborhoodGerrymandering",
    "MCML",
    "LDML",
    "NCMML",
    "DMLMJ",
    "ANMM",
    "GMML_Supervised",
    "KISSME_Supervised",
    "XQDA",
    "OASIS_Supervised",
]
SETS = ["wine", "iris", "vowel", "segmentation", "letter", "digits", "breast_cancer", "synthetic"]
WITHOUT_SEED = {"Covariance", "LFDA", "DMLMJ", "ANMM", "KISSME_Supervised", "XQDA"}
MOST = 3000

FULL_SIZE = ["letter", "covtype", "synthetic", "mnist", "isolet", "usps"]
TRAINED = ["NCA", "LMNN", "NeighborhoodGerrymandering"]
N_TRAIN, N_TEST = 10_000, 5000

FEW = (206, 320, 800)

Points = tuple[np.ndarray, np.ndarray]
Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load(name: str) -> Points:
    """Return points and labels."""
    if name == "synthetic":
        arrays = data.synthetic(2000)
        return arrays["X"], arrays["y"]
    if name in ("digits", "breast_cancer"):
        x, y = (load_digits if name == "digits" else load_breast_cancer)(return_X_y=True)
        return x, y
    with np.load(data.folder() / f"{name}.npz") as saved:
        x, y = saved["X"].astype(np.float64), saved["y"]
    kept = np.random.RandomState(0).permutation(len(x))[:MOST]
    return x[kept], np.unique(y[kept], return_inverse=True)[1]


def errors(
    package: str, learner: str, points: Points, n_splits: int, timeout: float
) -> list[float]:
    """Return the test error of a learner on each split; NaN where it fails, with the reason."""
    x, y = points
    splitter = StratifiedShuffleSplit(n_splits, test_size=0.2, random_state=0)
    found = []
    for train, test in splitter.split(x, y):
        learned = np.eye(x.shape[1])
        if learner != "Euclidean":
            params = {} if learner in WITHOUT_SEED else {"random_state": 0}
            try:
                learned = _fit(package, learner, params, x[train], y[train], timeout)
            except (PeerFailedError, PeerMissingError) as error:
                print(f"{package} {learner}: {error}", flush=True)
                return [np.nan] * n_splits
        judge = similarity_error if learner.startswith("OASIS") else test_error
        found.append(judge(learned, x[train], y[train], x[test], y[test]))
    return found


def _fit(
    package: str,
    learner: str,
    params: dict[str, object],
    x: np.ndarray,
    y: np.ndarray,
    timeout: float,
) -> np.ndarray:
    call = f"{PACKAGES[package]}.fit"
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: f"{folder}/{name}.npy" for name in ("X", "y")}
        np.save(paths["X"], x)
        np.save(paths["y"], y)
        worker = Worker(package, call, paths, {"learner": learner, **params}, threads=1)
        try:
            digest = Path(folder) / "digest.npz"
            worker.run(timeout, digest)
            with np.load(digest) as saved:
                learned: np.ndarray = saved["components"]
        finally:
            worker.close()
    if not np.isfinite(learned).all():
        raise PeerFailedError("NaN in the learned map")
    return learned


def full_size(name: str) -> Split:
    """Return training points and classes, and test points and classes."""
    if name in ("letter", "isolet", "usps"):
        arrays = data.official(name, {"isolet": 172, "usps": 64}.get(name))
    elif name == "synthetic":
        arrays = data.synthetic(N_TRAIN)
    elif name == "mnist":
        arrays = data.mnist()
        some = np.random.RandomState(0).permutation(len(arrays["X"]))[:N_TRAIN]
        x, pca = arrays["X"][some].astype(np.float64), PCA(50, svd_solver="full")
        arrays |= {"X": pca.fit_transform(x), "y": arrays["y"][some]}
        arrays["X_test"] = pca.transform(arrays["X_test"].astype(np.float64))
    else:
        with np.load(data.folder() / "covtype_93k.npz") as saved:
            x, y = saved["X"].astype(np.float64), saved["y"]
        order = np.random.RandomState(0).permutation(len(x))
        train, test = order[:N_TRAIN], order[N_TRAIN : N_TRAIN + N_TEST]
        scaler = StandardScaler().fit(x[train])
        arrays = {"X": scaler.transform(x[train]), "X_test": scaler.transform(x[test])}
        arrays |= {"y": y[train], "y_test": y[test]}
    return tuple(arrays[key] for key in ("X", "y", "X_test", "y_test"))


def compare_few_points(learners: list[str]) -> None:
    """Print the errors of learners that are fitted to few points with many features."""
    if (data.folder() / "mnist.npz").exists():
        (x, y), sizes = data.small_mnist(), FEW
    else:
        x, y = load_digits(return_X_y=True)
        sizes = tuple(n // 3 for n in FEW)
    order = np.random.RandomState(0).permutation(len(x))
    for n in sizes:
        train, test = order[:n], order[n : n + 1500]
        split = x[train], y[train], x[test], y[test]
        print(f"\n{split[0].shape}\n\n| learner | 1-NN | chosen |\n|---|---|---|")
        print(f"| given | {100 * neighbor_error(np.eye(x.shape[1]), *split, 1):.1f} | |")
        for learner in learners:
            params = {} if learner in WITHOUT_SEED else {"random_state": 0}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = getattr(metricfast, learner)(**params).fit(*split[:2])
            chosen = model.judgement_.name if hasattr(model, "judgement_") else ""
            error = 100 * neighbor_error(model.components_, *split, 1)
            print(f"| {learner} | {error:.1f} | {chosen} |", flush=True)


def compare_stopping(name: str, learners: list[str]) -> None:
    """Print the errors of learners on a set, with the judge, early stopping and neither."""
    x, y, x_test, y_test = full_size(name)
    plain = [100 * neighbor_error(np.eye(x.shape[1]), x, y, x_test, y_test, k) for k in (3, 5)]
    print(f"\n{name}: {x.shape}, Euclidean {plain[0]:.2f} {plain[1]:.2f} %\n", flush=True)
    print("| learner | end of training | 3-NN | 5-NN | iterations | CPU s |\n" + "|---" * 6 + "|")
    for learner in learners:
        for end in ({"judge": "auto"}, {"early_stopping": True}, {"judge": None}):
            params = {**end, "random_state": 0, "n_jobs": 1}
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = getattr(metricfast, learner)(**params).fit(x, y)
            seconds = time.process_time() - begin
            L = model.components_
            found = [100 * neighbor_error(L, x, y, x_test, y_test, k) for k in (3, 5)]
            cells = [f"{found[0]:.2f}", f"{found[1]:.2f}", str(model.n_iter_), f"{seconds:.1f}"]
            how = ", ".join(f"{name}={value!r}" for name, value in end.items())
            print(" | ".join([f"| {learner}", how, *cells]) + " |", flush=True)


def main() -> None:
    """Run the study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data", action="append", choices=[*SETS, *FULL_SIZE])
    parser.add_argument("--few-points", action="store_true")
    parser.add_argument("--full-size", action="store_true")
    parser.add_argument("--learner", action="append")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=300)
    options = parser.parse_args()
    if options.few_points:
        compare_few_points(options.learner or LEARNERS + [n for n in OURS if "OASIS" not in n])
        return
    if options.full_size:
        for name in options.data or FULL_SIZE:
            compare_stopping(name, options.learner or TRAINED)
        return
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name in options.data or SETS:
        points = load(name)
        plain = errors("numpy", "Euclidean", points, options.splits, 0)
        print(f"\n{name}: {points[0].shape}, Euclidean {100 * np.mean(plain):.1f} %\n", flush=True)
        print("| learner | metricfast | metric-learn | |\n|---|---|---|---|")
        for learner in options.learner or LEARNERS + OURS:
            each = {
                package: errors(package, learner, points, options.splits, options.timeout)
                for package in PACKAGES
                if package == "metricfast" or learner not in OURS
            }
            ours, peer = (100 * np.mean(each.get(package, np.nan)) for package in PACKAGES)
            right, theirs = (1 - np.array(each.get(package, plain)) for package in PACKAGES)
            remarks = {
                "worse than Euclidean + 0.5": worse(right, 1 - np.array(plain), HALF),
                "worse than metric-learn": peer == peer and worse(right, theirs),
            }
            told = ", ".join(text for text, holds in remarks.items() if holds)
            print(f"| {learner} | {ours:.1f} | {peer:.1f} | {told} |", flush=True)
            found.setdefault(name, {})[learner] = each
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "defaults.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
