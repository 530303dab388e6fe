"""Re-identification across two cameras on VIPeR, and verification of faces.

    python -m benchmarks.reid [--splits N] [--only LEARNER] [--faces]

VIPeR has one image of each of 632 people from each of two cameras; viper_mdf.npz has 44 features of
each image. The file has 100 splits into 316 people for training and 316 people for testing. The
images of the first camera are the queries, the images of the second camera the gallery. The table
has medians over splits of the cumulative match characteristic (CMC) at 1, 5, 10 and 20 in percent,
by Euclidean distance and by cosine around the mean of the training points, and the processor
seconds of a fit. Learners have default parameters. For learners on pairs, the two images of each
person are a similar pair, and equally many random pairs of images of different people are
dissimilar pairs. The row "Euclidean" checks the protocol.

`--faces` verifies pairs of Labeled Faces in the Wild if scikit-learn has downloaded them
(`sklearn.datasets.fetch_lfw_pairs`), otherwise pairs of synthetic faces. A learner that is fitted
to nine folds measures the pairs of the tenth, in units of its threshold.
"""

from __future__ import annotations

__all__ = ["main"]

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import fetch_lfw_pairs
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

import metricfast
from benchmarks import data
from metricfast.metrics import retrieval_report, verification_report

RANKS = (1, 5, 10, 20)
# Published CMC for these features and splits (github.com/silasxue/MDF-KISS).
PUBLISHED = {"Euclidean": (13.61, 29.75, 40.51, 55.06), "KISSME": (26.90, 60.13, 75.32, 87.82)}
# Percentage points by which Euclidean results may differ under the same protocol.
_AGREES = 0.5
EUCLIDEAN = "Euclidean"
PAIRS = ("GMML", "ITML", "KISSME", "MMC", "SDML")
CLASSES = (
    *("Covariance", "RCA_Supervised", "LFDA", "ANMM", "DMLMJ", "GMML_Supervised"),
    *("KISSME_Supervised", "XQDA", "ITML_Supervised", "SDML_Supervised", "LSML_Supervised"),
    *("MMC_Supervised", "SCML_Supervised", "NCA", "LMNN", "MCML", "LDML", "NCMML"),
    *("NeighborhoodGerrymandering", "ProxyNCALearner", "TripletLearner"),
)
VIEWED = ("KISSME_Supervised", "XQDA")
LEARNERS = (EUCLIDEAN, *PAIRS, *CLASSES)
_COMPONENTS = 50
_FAR = (1e-1, 1e-2)

Scores = list[float]


def learned(name: str, a: np.ndarray, b: np.ndarray, seed: int) -> Callable[[Any], np.ndarray]:
    """Return the map that a learner finds for people in two cameras.

    `a`, `b`: one row per person, for each camera.
    """
    if name == EUCLIDEAN:
        return np.asarray
    learner, n = getattr(metricfast, name)(), len(a)
    if "random_state" in learner.get_params(deep=False):
        learner.set_params(random_state=0)
    if name in PAIRS:
        others = _others(np.random.default_rng(seed).permutation(n))
        pairs = np.stack([np.vstack([a, a]), np.vstack([b, b[others]])], axis=1)
        learner.fit(pairs, np.repeat([1, -1], n))
    else:
        people, cameras = np.tile(np.arange(n), 2), np.repeat([0, 1], n)
        views = {"views": cameras} if name in VIEWED else {}
        learner.fit(np.vstack([a, b]), people.astype(str), **views)
    found: Callable[[Any], np.ndarray] = learner.transform
    return found


def _others(order: np.ndarray) -> np.ndarray:
    """Return another person for each person: the next one in a random cycle."""
    found = np.empty_like(order)
    found[order] = np.roll(order, 1)
    return found


def cmc(queries: np.ndarray, gallery: np.ndarray) -> Scores:
    """Return the CMC in percent; both arrays have one row per person."""
    people = np.arange(len(queries))
    report = retrieval_report(
        queries, people, gallery, people, metrics="cmc_at_k", k=RANKS, baselines=False
    )
    return [100 * score.mean for score in report.values()]


def identify(name: str, a: np.ndarray, b: np.ndarray, splits: np.ndarray) -> tuple[Scores, ...]:
    """Return medians over splits, of both CMC and of the fit time."""
    distances, cosines, times = [], [], []
    for seed, people in enumerate(splits):
        train, test = np.split(people, 2)
        center = np.vstack([a[train], b[train]]).mean(axis=0)
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            embed = learned(name, a[train] - center, b[train] - center, seed)
        times.append(time.process_time() - begin)
        queries, gallery = embed(a[test] - center), embed(b[test] - center)
        distances.append(cmc(queries, gallery))
        cosines.append(cmc(normalize(queries), normalize(gallery)))
    return tuple(np.median(each, axis=0) for each in (distances, cosines, [[t] for t in times]))


def viper(n_splits: int, names: list[str]) -> None:
    """Print the table of re-identification."""
    with np.load(data.folder() / "viper_mdf.npz") as saved:
        a, b = (saved[name].astype(np.float64) for name in ("camera_a", "camera_b"))
        every = saved["splits"].astype(np.int64)
        splits = every[:n_splits]
    columns = [f"CMC@{k}" for k in RANKS]
    head = [*columns, *(f"cosine {each}" for each in columns), "seconds"]
    print(f"| {a.shape[1]} features, {len(splits)} splits | {' | '.join(head)} |")
    print("|---|" + "---:|" * len(head))
    for name, values in PUBLISHED.items():
        cells = [*(f"{value:.2f}" for value in values), *[""] * (len(RANKS) + 1)]
        print(f"| published {name} | {' | '.join(cells)} |")
    for name in names:
        try:
            distance, cosine, (seconds,) = identify(name, a, b, splits)
        except (ValueError, np.linalg.LinAlgError) as error:
            print(f"| {name} | {str(error).partition(':')[0]} |", flush=True)
            continue
        cells = [f"{value:.2f}" for value in (*distance, *cosine)]
        print(f"| {name} | {' | '.join(cells)} | {seconds:.3f} |", flush=True)
        if name == EUCLIDEAN:
            apart = np.abs(np.subtract(distance, PUBLISHED[EUCLIDEAN])).max()
    if EUCLIDEAN in names and len(splits) == len(every):
        same = "the same" if apart <= _AGREES else "another one"
        print(f"\nEuclidean distance: {apart:.2f} from the published values at most.")
        print(f"The protocol is {same}.")


def face_pairs() -> tuple[str, np.ndarray, np.ndarray]:
    """Return the name of the data, pairs of pictures as rows of pixels, and pair labels."""
    try:
        lfw = fetch_lfw_pairs(subset="10_folds", download_if_missing=False)
    except OSError:
        rng = np.random.default_rng(0)
        person, light = rng.normal(size=(20, 120)), rng.normal(size=(20, 120))
        y = np.tile(np.repeat([1, -1], 60), 10)
        who = rng.normal(size=(len(y), 2, 20))
        who[y == 1, 1] = who[y == 1, 0]
        lit = rng.normal(size=who.shape)
        return "made faces", who @ person + 2 * lit @ light + rng.normal(size=(len(y), 2, 120)), y
    pictures = lfw.pairs.reshape(len(lfw.pairs), 2, -1).astype(np.float64)
    return "Labeled Faces in the Wild", pictures, np.where(lfw.target == 1, 1, -1)


def faces(names: list[str]) -> None:
    """Print the table of verification."""
    kind, pairs, y = face_pairs()
    fold = np.arange(len(y)) * 10 // len(y)
    head = ["accuracy", "± error", "AUC", "EER", *(f"TAR at FAR {far:g}" for far in _FAR)]
    print(f"\n| {kind}: {len(y)} pairs | {' | '.join(head)} |\n|---|" + "---:|" * len(head))
    for name in names:
        distances = np.empty(len(y))
        for each in range(10):
            train, test = fold != each, fold == each
            pca = PCA(_COMPONENTS, random_state=0).fit(pairs[train].reshape(-1, pairs.shape[2]))
            points = pca.transform(pairs.reshape(-1, pairs.shape[2])).reshape(len(y), 2, -1)
            if name == EUCLIDEAN:
                distances[test] = np.linalg.norm(np.diff(points[test], axis=1)[:, 0], axis=1)
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                learner = getattr(metricfast, name)().fit(points[train], y[train])
            distances[test] = learner.pair_distance(points[test]) / max(learner.threshold_, 1e-12)
        report = verification_report(y, distances, far=_FAR, folds=fold)
        shown = ["accuracy", "accuracy_error", "roc_auc", "equal_error_rate"]
        shown += [f"tar_at_far_{far:g}" for far in _FAR]
        print(f"| {name} | {' | '.join(f'{report[each]:.3f}' for each in shown)} |", flush=True)


def main(argv: list[str] | None = None) -> None:
    """Run the benchmark, and print its tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reid",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--splits", type=int, default=100, metavar="N")
    parser.add_argument("--only", action="append", choices=LEARNERS, metavar="LEARNER")
    parser.add_argument("--faces", action="store_true", help="verification of faces")
    given = parser.parse_args(argv)
    names = given.only or list(LEARNERS)
    if given.faces:
        faces([name for name in names if name == EUCLIDEAN or name in PAIRS])
    else:
        viper(given.splits, names)


if __name__ == "__main__":
    main()
