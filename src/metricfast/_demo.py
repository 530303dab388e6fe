"""Five questions with their answers before and after learning, and a picture."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits, load_wine, make_friedman1
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.neighbors import (
    KNeighborsClassifier,
    KNeighborsRegressor,
    NeighborhoodComponentsAnalysis,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from metricfast._core.scatter import svd
from metricfast._core.types import Array, Floats
from metricfast.learners import LFDA, MLKR, NCA
from metricfast.metrics import precision_at_1

_NEXT = """
Next, which learner suits your data, and what does it gain? In {python}:
    import metricfast
    from sklearn.datasets import make_friedman1
    X, y = make_friedman1(500, noise=1, random_state=0)  # or your own data
    print(metricfast.compare(X, y, learners="MLKR", random_state=0))

{python} -m metricfast demo --all    all learners on four data sets, some minutes
docs/quickstart.md                   a dozen lines to start from"""


class Answer(NamedTuple):
    """Scores of two methods on the same data, and a remark."""

    score: str
    before: tuple[str, float]
    after: tuple[str, float]
    note: str
    unit: str = ""

    def __str__(self) -> str:
        (old, x), (new, y) = self.before, self.after
        digits = 2 if self.unit else 3
        values = f"{old} {x:.{digits}f}{self.unit}  ->  {new} {y:.{digits}f}{self.unit}"
        return f"   {self.score}\n   {values}\n   {self.note}"


def run_demo(output: Path) -> int:
    """Print the answers one by one, draw the picture, and return the exit code."""
    print("metricfast learns a distance from labels. Five questions, before and after learning.")
    print("Scores are those of rows that the learner has not seen.")
    for number, (question, answer) in enumerate(QUESTIONS.items(), 1):
        print(f"\n{number}. {question}", flush=True)
        print(answer(), flush=True)
    try:
        draw().savefig(output, dpi=110)
    except ImportError as error:
        print(f"\nno picture: {error}", file=sys.stderr)
    except OSError as error:
        print(f"\nno picture: {error}; choose another file by --output", file=sys.stderr)
    else:
        print(f"\nA picture of question 2: {output.resolve()}")
    print(_NEXT.format(python=_python()))
    return 0


def _python() -> str:
    """Return the command that starts this Python, for messages."""
    path = Path(sys.executable)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _columns_of_noise() -> Answer:
    """Classify wines by 13 measurements and 30 columns of noise."""
    wine = load_wine()
    noise = np.random.default_rng(0).normal(size=(len(wine.data), 30))
    X, y = np.c_[wine.data, noise], wine.target
    scale, knn = StandardScaler(), KNeighborsClassifier(3)
    nca = NCA(n_components=2, random_state=0)
    share = nca.fit(scale.fit_transform(X), y).feature_relevance()[13:].sum()
    return Answer(
        "wine and 30 columns of noise: accuracy of 3 neighbours, 5 folds",
        ("Euclidean", cross_val_score(make_pipeline(scale, knn), X, y).mean()),
        ("NCA", cross_val_score(make_pipeline(scale, nca, knn), X, y).mean()),
        f"NCA gives the 30 columns of noise {share:.0%} of the weight.",
    )


def _a_number() -> Answer:
    """Predict a number from ten columns, of which five are informative."""
    X, y = make_friedman1(1000, noise=1, random_state=0)
    knn = KNeighborsRegressor(5)
    return Answer(
        "friedman1, 1000 rows: R² of 5 neighbours, 5 folds",
        ("Euclidean", cross_val_score(knn, X, y).mean()),
        ("MLKR", cross_val_score(make_pipeline(MLKR(random_state=0), knn), X, y).mean()),
        "Five columns of the ten matter, and MLKR finds them.",
    )


def _three_columns() -> Answer:
    """Reduce images of digits from 64 pixels to three columns."""
    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), random_state=0)
    pca = make_pipeline(PCA(3), KNeighborsClassifier(5))
    nca = make_pipeline(NCA(n_components=3, random_state=0), KNeighborsClassifier(5))
    whole = KNeighborsClassifier(5).fit(X, y).score(X_test, y_test)
    return Answer(
        "digits, 64 pixels to 3 columns: accuracy of 5 neighbours, 450 held-out digits",
        ("PCA", pca.fit(X, y).score(X_test, y_test)),
        ("NCA", nca.fit(X, y).score(X_test, y_test)),
        f"All 64 pixels have {whole:.3f}. Three columns make a plot and a small database.",
    )


def strangers() -> Answer:
    """Find pictures of the same person; no person was seen in training."""
    rng = np.random.default_rng(0)
    of_person, of_picture = rng.normal(size=(8, 40)), 2 * rng.normal(size=(12, 40))
    who = np.repeat(np.arange(100), 6)

    def pictures() -> Floats:
        person = (rng.normal(size=(100, 8)) @ of_person)[who]
        noise = 1.5 * rng.normal(size=(600, 40))
        return person + rng.normal(size=(600, 12)) @ of_picture + noise

    lfda = LFDA(n_components=8).fit(pictures(), who)
    X = pictures()
    return Answer(
        "made data, 100 people of 6 pictures each: the first hit is the right person",
        ("Euclidean", precision_at_1(X, who)),
        ("LFDA", precision_at_1(lfda.transform(X), who)),
        "LFDA was trained on 100 other people.",
    )


def seconds() -> Answer:
    """Time 30 iterations of each library, from the same start and on one thread."""
    X, y = load_digits(return_X_y=True)
    X = X / 16 - X.mean(axis=0) / 16
    start = svd(X)[2][:2]
    ours = NCA(init=start, max_iter=30, tol=1e-9, judge=None, init_scale=None)
    theirs = NeighborhoodComponentsAnalysis(2, init=start, max_iter=30, tol=1e-9)
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 30 iterations are too few
        old, new = _time(theirs, X, y), _time(ours, X, y)
    return Answer(
        "digits, 30 iterations of NCA on one thread",
        ("scikit-learn", old),
        ("metricfast", new),
        f"That is {old / new:.0f} times as fast.",
        " s",
    )


def _time(learner: Any, X: Array, y: Array) -> float:
    begin = time.perf_counter()
    learner.fit(X, y)
    return time.perf_counter() - begin


QUESTIONS = {
    "Can neighbours ignore columns that say nothing?": _columns_of_noise,
    "Can they predict a number?": _a_number,
    "Can they do with few columns?": _three_columns,
    "Can they find people whom nobody has labelled?": strangers,
    "How long does learning take?": seconds,
}


def draw() -> Any:
    """Return a figure: held-out rows of friedman1 in two dimensions, by PCA and by MLKR."""
    plotting = importlib.import_module("metricfast.plotting")
    figure = importlib.import_module("matplotlib.figure").Figure((9, 4.2), layout="constrained")
    X, X_test, y, y_test = train_test_split(
        *make_friedman1(2000, noise=1, random_state=0), test_size=0.5, random_state=0
    )
    learners = {"PCA": PCA(2), "MLKR": MLKR(n_components=2, random_state=0)}
    plotting.EmbeddingDisplay.from_embeddings(
        {name: learner.fit(X, y).transform(X_test) for name, learner in learners.items()},
        y_test,
        n_neighbors=5,
        ax=figure.subplots(1, 2),
        s=14,
    )
    figure.suptitle("1000 held-out rows in two dimensions, coloured by the number to predict")
    return figure
