"""All combinations of loss, labels, embedding, sampler and database train or raise clearly."""

import re
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array
from trained import embedding_learner

from metricfast import EmbeddingLearner, losses
from metricfast.embeddings import MLP, Asymmetric, Linear, Periodic
from metricfast.samplers import ClassBalanced, DenseTriplet, Uniform

LOSSES = [getattr(losses, name)() for name in losses.__all__ if name != "Compiled"]
LOSSES.append(losses.Triplet(labels="dense"))
N, M = 16, 12
RNG = np.random.default_rng(0)
X, X_DATABASE = RNG.normal(size=(N, 3)), RNG.normal(size=(M, 3))
CODES, CODES_DATABASE = np.arange(N) % 3, np.arange(M) % 3
LABELS = {
    "classes": (CODES, CODES_DATABASE),
    "text": tuple(np.array(["a", "b", "c"])[codes] for codes in (CODES, CODES_DATABASE)),
    "numbers": (RNG.normal(size=N), RNG.normal(size=M)),
    "vectors": (RNG.normal(size=(N, 2)), RNG.normal(size=(M, 2))),
    "tags": tuple(csr_array(RNG.random((n, 4)) < 0.4) for n in (N, M)),
}
PERCEPTRON, UNIFORM = MLP((4,), 2, normalize=True), Uniform(8)
# Both sides of the second one are embeddings of one kind of points.
EMBEDDINGS = [PERCEPTRON, Asymmetric(Linear(2), Periodic(2, 2))]
SAMPLERS = [
    UNIFORM,
    ClassBalanced(2, 8),
    DenseTriplet(1, 12, 6),
    DenseTriplet(1, 12, 6, all_anchors=True),
]
DATABASES = ["batch", "all", "others"]


def labels_fit(loss, kind, sampler):
    """Return whether loss and sampler take labels of this kind."""
    if kind in ("numbers", "classes"):
        return kind == "classes" or loss.labels != "class"
    if kind == "text":
        return loss.labels == "class"
    if kind == "vectors":
        return loss.labels != "class" and not isinstance(sampler, ClassBalanced)
    return kind == "tags" and loss.takes_tags and not isinstance(sampler, DenseTriplet)


def parts_fit(loss, embedding, sampler, database):
    """Return whether the loss can compare such points, and the sampler draws them."""
    if isinstance(sampler, DenseTriplet):
        if database == "others" and sampler.all_anchors:
            return False
        if not loss.has_anchors and not sampler.all_anchors:
            return False
    if loss.learnable_database:
        return database != "others" and not embedding.asymmetric
    return loss.has_anchors or (database == "batch" and not embedding.asymmetric)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_fit_is_finite_or_names_the_argument(loss):
    for kind, embedding, sampler, database in product(LABELS, EMBEDDINGS, SAMPLERS, DATABASES):
        # Folds are made of some of them: with the other parts they are the same.
        folds = (embedding, sampler, database) == (PERCEPTRON, UNIFORM, "batch")
        learner = embedding_learner(
            loss, embedding, sampler, database="all" if database == "all" else "batch",
            max_epochs=1, n_jobs=1, judge="auto" if folds else None,
        )  # fmt: skip
        y, of_database = LABELS[kind]
        others = (X_DATABASE, of_database) if database == "others" else ()
        here = (kind, embedding, sampler, database)
        fits = labels_fit(loss, kind, sampler) and parts_fit(loss, embedding, sampler, database)
        try:
            learner.fit(X, y, *others)
        except (TypeError, ValueError) as error:
            assert not fits, here
            text = str(error)
            argument = r"(y|y_database|X_database|database|embedding|sampler|all_anchors)"
            assert re.search(rf"\b{argument} (must|should|holds|is)\b", text), text
            assert re.search(r"[:;] |\. [A-Z]", text), f"{text} What is to be done?"
            assert "ambiguous" not in text and ".." not in text
        else:
            assert fits, here
            assert all(np.isfinite(array).all() for array in learner.parameters_), here
            assert np.isfinite(learner.loss_curve_).all(), here


@pytest.mark.parametrize("loss", [losses.LogRatio(), losses.SupCon(), losses.LMNN()], ids=repr)
@pytest.mark.parametrize("form", [np.asarray, list])
def test_labels_of_wrong_shapes_are_refused_with_a_remedy(loss, form):
    cubes = form(RNG.normal(size=(N, 2, 2)))
    with pytest.raises(
        ValueError, match=r"for y\. Give y|y should be .* \(16, 2, 2\)\. For.*give y"
    ):
        EmbeddingLearner(loss).fit(X, cubes)
    if loss.labels == "class":
        with pytest.raises(
            ValueError, match=r"y should be a 1d array of classes; found .*\(16, 2\)"
        ):
            EmbeddingLearner(loss).fit(X, form(RNG.normal(size=(N, 2))))


def test_sparse_labels_are_refused_by_what_needs_numbers():
    tags = csr_array(np.eye(N))
    with pytest.raises(TypeError, match="y is a sparse matrix; dense data are required"):
        losses.LogRatio()(X, tags)
    with pytest.raises(TypeError, match="y is a sparse matrix; dense data are required"):
        EmbeddingLearner(losses.LogRatio(label_distance="cityblock")).fit(X, tags)
    for sampler in (DenseTriplet(1, 8), DenseTriplet(1, 8, label_distance="cityblock")):
        with pytest.raises(
            ValueError, match="y must hold numbers for DenseTriplet; found a sparse"
        ):
            sampler.prepare(tags)
        with pytest.raises(ValueError, match="y_database must hold numbers for DenseTriplet"):
            sampler.prepare(CODES, y_database=tags)
