"""The table of embeddings in bad_input.md: a case for each row."""

import numpy as np
import pytest
from bad_input import changed, check, read_table
from embedding_cases import X, Y
from reference_losses import NAMES
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from trained import embedding_learner

from metricfast import EmbeddingLearner, LogRatioLearner, ProxyNCALearner, TripletLearner, losses
from metricfast.embeddings import MLP, Linear
from metricfast.samplers import ClassBalanced, DenseTriplet, Uniform
from metricfast.solvers import Adam

TABLE = read_table("Embeddings")
NUMBERS = X[:, 0] + 0.01 * np.arange(150)
SHORT = {"max_epochs": 2, "random_state": 0}
OF_CLASSES = [
    EmbeddingLearner(losses.SupCon(), Linear(2, normalize=True), **SHORT),
    EmbeddingLearner(losses.Contrastive(), MLP((8,), 2), solver="sgd", **SHORT),
    TripletLearner(2, **SHORT),
    ProxyNCALearner(2, **SHORT),
]
OF_NUMBERS = [
    EmbeddingLearner(losses.Ratio(), Linear(2), **SHORT),
    EmbeddingLearner(losses.RankNContrast(), MLP((8,), 2, normalize=True), **SHORT),
    LogRatioLearner(2, **SHORT),
]
LOSSES = {
    kind: [loss for loss in (getattr(losses, name)() for name in NAMES) if loss.labels == kind]
    for kind in ("class", "continuous")
}
PROXIES = (X[:3] + 1.0, np.arange(3))


def fit(learner, points=X, y=None, **params):
    if y is None:
        y = Y if learner._has_classes else NUMBERS
    params = {"judge": None} | params
    return clone(learner).set_params(**params).fit(points, y)


def finite(model):
    assert all(np.isfinite(array).all() for array in model.parameters_)
    assert np.isfinite(model.loss_curve_).all()
    assert np.isfinite(model.transform(X)).all()


def warned(message, learner, *arguments, **params):
    with pytest.warns(ConvergenceWarning, match=message):
        model = fit(learner, *arguments, **params)
    finite(model)


def all_points(learner):
    found, expected = (fit(learner, batch_size=size).transform(X) for size in (10**6, len(X)))
    np.testing.assert_array_equal(found, expected)


def diverging(learner):
    """Configure a learner whose map grows until distances overflow."""
    del learner
    for loss in (losses.Triplet(), losses.SupCon(), losses.MultiSimilarity(), losses.CoSENT()):
        model = embedding_learner(
            loss, Linear(2, normalize=False), Uniform(50), solver="sgd", learning_rate=1e6
        )
        labels = Y if loss.labels == "class" else NUMBERS
        warned("Training diverged.*Lower learning_rate", model, X.astype("f4"), labels)


def unknown_class(learner):
    return clone(learner).partial_fit(X, Y).partial_fit(X, np.where(Y == 0, 7, Y))


LEARNER_CASES = {
    "learner-loss": lambda learner: fit(learner, loss="triplet"),
    "learner-embedding": lambda learner: fit(learner, embedding="linear"),
    "learner-sampler": lambda learner: fit(learner, sampler="uniform"),
    "learner-solver": lambda learner: fit(learner, solver="other"),
    "learner-rate": lambda learner: fit(learner, learning_rate=np.inf),
    "learner-batch_size": lambda learner: fit(learner, batch_size=0),
    "learner-components": lambda learner: fit(learner, embedding=Linear(0)),
    "learner-hidden": lambda learner: fit(learner, embedding=MLP((0,))),
    "learner-nan": lambda learner: fit(learner, changed(np.nan, X)),
    "learner-inf": lambda learner: fit(learner, changed(np.inf, X)),
    "learner-one-row": lambda learner: fit(learner, X[:1], [0]),
    "learner-y-length": lambda learner: fit(learner, X[:-1]),
    "learner-huge": lambda learner: fit(learner, np.float32(X * 1e30)),
    "learner-constant": lambda learner: warned("No batch of the first epoch", learner, 0 * X + 1),
    "learner-batch-large": all_points,
    "learner-diverges": diverging,
    "learner-score-length": lambda learner: fit(learner).score(X, Y[:-1]),
    "learner-distance-twice": lambda learner: fit(
        learner, label_distance="cosine", sampler=DenseTriplet(label_distance="euclidean")
    ),
    "learner-rate-twice": lambda learner: fit(
        learner, solver=Adam(), max_epochs=None, learning_rate=0.1
    ),
    "class-distance": lambda learner: fit(learner, label_distance="cosine"),
    "class-y-continuous": lambda learner: fit(learner, y=NUMBERS),
    "class-y-nan": lambda learner: fit(learner, y=np.where(Y == 0, np.nan, Y)),
    "class-y-2d": lambda learner: fit(learner, y=np.c_[Y, Y]),
    "class-one": lambda learner: fit(learner, y=0 * Y),
    "class-lone": lambda learner: warned(
        "No batch of the first epoch", learner, X, np.arange(150).astype(str)
    ),
    "class-no-negative": lambda learner: finite(fit(learner, y=np.arange(150) == 0, batch_size=8)),
    "class-batch-one": lambda learner: warned("raise batch_size", learner, batch_size=1),
    "class-held-out": lambda learner: fit(
        learner, y=np.arange(150).astype(str), early_stopping=True
    ),
    "class-score-lone": lambda learner: fit(learner).score(X[[0, 50, 100]], [0, 1, 2]),
    "class-partial_fit": unknown_class,
    "number-y-nan": lambda learner: fit(learner, y=np.where(Y == 0, np.nan, Y)),
    "number-y-text": lambda learner: fit(learner, y=np.array(["a", "b", "c"])[Y]),
    "number-y-constant": lambda learner: fit(learner, y=np.full(150, 2.5)),
    "number-y-tied": lambda learner: finite(fit(learner, y=1.0 * (np.arange(150) == 0))),
    "number-y-3d": lambda learner: fit(learner, y=np.ones((150, 2, 2))),
    "number-distance-width": lambda learner: fit(learner, label_distance="haversine"),
    "number-distance-rows": lambda learner: fit(
        learner, X[:140], np.ones((150, 150))[:140], label_distance="precomputed"
    ),
    "number-batch-small": lambda learner: fit(learner, batch_size=20),
}
SAMPLER_CASES = {
    "sampler-uniform": lambda: Uniform(0).prepare(Y),
    "sampler-balanced": lambda: ClassBalanced(0).prepare(Y),
    "sampler-balanced-2d": lambda: ClassBalanced().prepare(X),
    "sampler-dense-nan": lambda: DenseTriplet().prepare(np.where(Y == 0, np.nan, Y)),
    "sampler-dense-text": lambda: DenseTriplet().prepare(np.array(["a", "b", "c"])[Y]),
    "sampler-dense-ties": lambda: DenseTriplet(ties="other").prepare(Y),
}


def call(loss, Z=X, y=None):
    if y is None:
        y = Y if loss.labels == "class" else NUMBERS
    return loss(Z, y, *(PROXIES if loss.learnable_database else ()))


def defined(loss, Z=X, y=None):
    value, gradients = call(loss, Z, y)
    assert np.isfinite(value)
    for gradient in gradients if isinstance(gradients, tuple) else (gradients,):
        assert np.isfinite(gradient).all()


def one_point(loss):
    if not isinstance(loss, losses.Gerrymander):
        defined(loss, X[:1], [0])


LOSS_CASES = {
    "loss-z-nan": lambda loss: call(loss, changed(np.nan, X)),
    "loss-y-nan": lambda loss: call(loss, y=np.where(Y == 0, np.nan, Y)),
    "loss-zero": lambda loss: defined(loss, 0 * X),
    "loss-one": one_point,
    "loss-tied": lambda loss: defined(loss, y=0 * Y),
    "loss-different": lambda loss: defined(loss, y=np.arange(150)),
    "loss-class-continuous": lambda loss: call(loss, y=NUMBERS),
    "loss-number-text": lambda loss: call(loss, y=np.array(["a", "b", "c"])[Y]),
    "loss-overflow": lambda loss: call(loss, np.float32(X * 1e30)),
}


def rows():
    for name, row in TABLE.items():
        if name in SAMPLER_CASES:
            yield pytest.param(row, SAMPLER_CASES[name], (), id=name)
            continue
        kind = name.replace("loss-class", "class").replace("loss-number", "number").split("-")[0]
        cases = LOSS_CASES if name in LOSS_CASES else LEARNER_CASES
        classes, numbers = LOSSES.values() if name in LOSS_CASES else (OF_CLASSES, OF_NUMBERS)
        which = {"class": classes, "number": numbers}.get(kind, [*classes, *numbers])
        for subject in which:
            if row.learner in (None, type(subject).__name__):
                yield pytest.param(
                    row, cases[name], (subject,), id=f"{name}-{type(subject).__name__}"
                )


@pytest.mark.parametrize(("row", "case", "subject"), list(rows()))
def test_row(row, case, subject):
    check(row, lambda: case(*subject))


def test_every_row_has_a_case_and_every_case_a_row():
    assert set(TABLE) == {*LEARNER_CASES, *SAMPLER_CASES, *LOSS_CASES}
