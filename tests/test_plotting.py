"""Plots: their data, axes and artists."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_hex
from sklearn.datasets import load_iris
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast as mf
from metricfast import metrics
from metricfast.plotting import (
    ComparisonDisplay,
    EmbeddingDisplay,
    FeatureRelevanceDisplay,
    JudgementDisplay,
    LossCurveDisplay,
    NeighborsDisplay,
    PairScoreDisplay,
    RetrievalDisplay,
    VoteDisplay,
)
from metricfast.plotting._axes import BASELINE, DISSIMILAR, SIMILAR

X, Y = load_iris(return_X_y=True)
NUMBERS = X @ [1.0, 0.5, -1.0, 0.3]
LFDA = mf.LFDA(2).fit(X, Y)
COMPARISON = mf.compare(X, Y, learners=["LFDA", "NCA"], race=True, refit=False, random_state=0)
PIPELINE = make_pipeline(StandardScaler(), mf.LFDA(2)).fit(X, Y)
MLKR = mf.MLKR(n_components=2, tol=1e-2).fit(X, NUMBERS)
SGD = mf.NCA(solver=mf.solvers.Adam(max_epochs=4), early_stopping=True, random_state=0).fit(X, Y)
INDEX = np.array([[0, 1], [60, 70], [120, 121], [0, 60], [1, 130], [70, 140]])
PAIRS, SAME = X[INDEX], np.array([1, 1, 1, -1, -1, -1])
VOTES = mf.NeighborhoodGerrymandering(3, init="identity", judge=None, random_state=0)
VOTES.set_params(solver=mf.solvers.Adam(max_epochs=1)).fit(X, Y)
IMAGES = np.random.default_rng(0).random((150, 4, 3))
REPORT = metrics.retrieval_report(X, Y, metrics="recall_at_k", k=(1, 2, 5))


@pytest.fixture(autouse=True)
def no_windows():
    backend = mpl.get_backend()
    plt.switch_backend("Agg")
    yield
    plt.close("all")
    plt.switch_backend(backend)


DRAWN = {
    "embedding": (lambda **how: EmbeddingDisplay.from_estimator(LFDA, X, Y, **how), 2),
    "embeddings": (lambda **how: EmbeddingDisplay.from_embeddings({"raw": X}, Y, **how), 1),
    "relevance": (lambda **how: FeatureRelevanceDisplay.from_estimator(LFDA, X, **how), 2),
    "components": (lambda **how: FeatureRelevanceDisplay.from_components([[1.0, 2.0]], **how), 2),
    "pairs": (lambda **how: PairScoreDisplay.from_estimator(LFDA, PAIRS, SAME, **how), 2),
    "distances": (lambda **how: PairScoreDisplay.from_predictions(SAME, [*range(6)], **how), 2),
    "comparison": (lambda **how: ComparisonDisplay.from_comparison(COMPARISON, **how), 1),
    "judgement": (lambda **how: JudgementDisplay.from_estimator(LFDA, **how), 1),
    "curve": (lambda **how: LossCurveDisplay.from_estimator(SGD, **how), 1),
    "curves": (lambda **how: LossCurveDisplay.from_curves([3.0, 2.0], **how), 1),
    "retrieval": (lambda **how: RetrievalDisplay.from_estimator(LFDA, X, Y, **how), 1),
    "report": (lambda **how: RetrievalDisplay.from_report(REPORT, **how), 1),
    "votes": (lambda **how: VoteDisplay.from_estimator(VOTES, X, Y, **how), 1),
    "neighbors": (lambda **how: NeighborsDisplay.from_estimator(LFDA, X, [0, 60], **how), 1),
    "found": (lambda **how: NeighborsDisplay.from_neighbors([[1.0]], [[4]], **how), 1),
}


@pytest.mark.parametrize(("draw", "n_panels"), DRAWN.values(), ids=DRAWN)
def test_displays_draw_where_they_are_told(draw, n_panels):
    plt.close("all")
    display = draw()
    axes = np.atleast_1d(display.ax_)
    assert len(axes) == n_panels
    assert all(each.has_data() or each.texts for each in axes)
    assert plt.get_fignums() == [display.figure_.number]

    figure, given = plt.subplots(1, 3)
    display = draw(ax=given[:n_panels] if n_panels > 1 else given[0])
    assert list(np.atleast_1d(display.ax_)) == list(given[:n_panels])
    assert display.figure_ is figure
    whole = given[2]
    again = display.plot(ax=whole)  # divided among the panels
    assert again is display
    assert display.figure_ is figure
    assert (display.ax_ is whole) == (n_panels == 1)
    figure.canvas.draw()
    with pytest.raises(ValueError, match=r"ax must be a matplotlib Axes.*got 'there'"):
        draw(ax="there")
    with pytest.raises(ValueError, match="ax must be"):
        draw(ax=[*given, *given])


def offsets(axes):
    return np.concatenate([drawn.get_offsets() for drawn in axes.collections])


def test_an_embedding_shows_its_points_and_what_their_neighbours_say():
    display = EmbeddingDisplay.from_estimator(PIPELINE, X, Y, s=3)
    before, after = display.ax_
    Z = PIPELINE.transform(X)
    ratio = offsets(after) / Z  # iris is sorted by class, like the plot
    np.testing.assert_allclose(ratio, ratio[0, 0])
    scaled = PIPELINE[0].transform(X)  # input of the learner
    shown = offsets(before) - offsets(before).mean(axis=0)
    components = np.linalg.svd(scaled, full_matrices=False)[2][:2]
    expected = scaled @ components.T
    np.testing.assert_allclose(np.abs(shown / expected).std(axis=0), 0, atol=1e-9)
    found = mf.kneighbors(Z, n_neighbors=3)[1]
    wrong = [np.bincount(Y[rows]).argmax() != label for rows, label in zip(found, Y, strict=True)]
    assert after.get_title() == f"LFDA: 3-NN error {np.mean(wrong):.1%}"
    assert [text.get_text() for text in after.get_legend().get_texts()] == ["0", "1", "2"]
    assert after.collections[0].get_sizes() == [3]


def test_continuous_labels_are_colours_of_a_scale():
    whole = np.round(10 * NUMBERS)  # only the learner treats them as continuous
    learner = mf.MLKR(n_components=1, tol=1e-2).fit(X, whole)
    display = EmbeddingDisplay.from_estimator(learner, X, whole, n_neighbors=1)
    (points,) = display.ax_[1].collections
    np.testing.assert_array_equal(points.get_array(), whole)
    np.testing.assert_array_equal(points.get_offsets()[:, 1], whole)  # the label
    nearest = mf.kneighbors(learner.transform(X), n_neighbors=1)[1][:, 0]
    expected = 1 - ((whole - whole[nearest]) ** 2).mean() / whole.var()
    assert display.scores[1] == pytest.approx(expected)
    assert display.ax_[1].get_title() == f"MLKR: 1-NN R² {expected:.2f}"
    assert len(display.figure_.axes) == 3  # the colour bar
    display = EmbeddingDisplay.from_embeddings({"raw": X}, NUMBERS, cmap="magma")
    assert display.classes is None
    assert display.ax_.collections[0].get_cmap().name == "magma"
    assert EmbeddingDisplay.from_embeddings({"raw": X}, Y, continuous=True).classes is None


def test_relevance_is_drawn_with_names_and_eigenvectors():
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    learner = mf.LFDA(2).fit(frame, Y)
    display = FeatureRelevanceDisplay.from_estimator(learner, frame, max_features=3)
    np.testing.assert_array_equal(display.relevance, learner.feature_relevance(frame))
    order = np.argsort(-display.relevance)[:3]
    bars, vectors = display.ax_
    widths = [bar.get_width() for bar in bars.patches]
    np.testing.assert_array_equal(widths, display.relevance[order])
    assert [tick.get_text() for tick in bars.get_yticklabels()] == ["abcd"[j] for j in order]
    spread = X.std(axis=0)
    M = spread[:, None] * learner.get_mahalanobis_matrix() * spread
    values = np.linalg.eigvalsh(M)[::-1]
    np.testing.assert_allclose(display.eigenvalues, values[:2] / values.sum())
    loadings = vectors.images[0].get_array()
    np.testing.assert_array_equal(loadings, display.eigenvectors[:, order].T)
    for value, vector in zip(values, display.eigenvectors, strict=False):
        np.testing.assert_allclose(M @ vector, value * vector, atol=1e-9 * values[0])
    # The eigenvectors reproduce the diagonal.
    np.testing.assert_allclose(display.eigenvalues @ display.eigenvectors**2, display.relevance)
    alone = FeatureRelevanceDisplay.from_estimator(learner, n_eigenvectors=0)
    assert len(alone.figure_.axes) == 1
    np.testing.assert_array_equal(alone.relevance, learner.feature_relevance())


def test_relevance_of_what_a_pipeline_gives_its_learner():
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    search = GridSearchCV(
        make_pipeline(StandardScaler(), mf.LFDA(2)), {"lfda__k": [3]}, cv=2,
        scoring=metrics.retrieval_scorer("precision_at_1"),
    ).fit(frame, Y)  # fmt: skip
    display = FeatureRelevanceDisplay.from_estimator(search, frame)
    assert display.feature_names == ["a", "b", "c", "d"]
    learner = search.best_estimator_[-1]
    np.testing.assert_allclose(display.relevance, learner.feature_relevance())
    names = FeatureRelevanceDisplay.from_estimator(PIPELINE).feature_names
    assert names == ["x0", "x1", "x2", "x3"]
    named = FeatureRelevanceDisplay.from_components(
        LFDA.components_, X, feature_names=["a", "b", "c", "d"]
    )
    np.testing.assert_array_equal(named.relevance, LFDA.feature_relevance(X))
    assert named.feature_names == ["a", "b", "c", "d"]
    predictor = make_pipeline(StandardScaler(), mf.KNeighborsClassifier(metric=mf.LFDA(2, k=3)))
    drawn = FeatureRelevanceDisplay.from_estimator(predictor.fit(frame, Y), frame)
    np.testing.assert_allclose(drawn.relevance, display.relevance)
    assert drawn.feature_names == display.feature_names
    with pytest.raises(TypeError, match="estimator must learn a Mahalanobis distance"):
        FeatureRelevanceDisplay.from_estimator(mf.KNeighborsClassifier().fit(X, Y))


def test_pairs_are_counted_by_kind_beside_the_threshold():
    learner = mf.LFDA(2).fit(X, Y).set_threshold(0.5)
    display = PairScoreDisplay.from_estimator(learner, PAIRS, SAME, bins=[0, 1, 1000])
    distances = learner.pair_distance(PAIRS)
    np.testing.assert_array_equal(display.distances, distances)
    counts, curve = display.ax_
    similar, dissimilar = counts.containers
    expected = np.histogram(distances[:3], [0, 1, 1000])[0]
    np.testing.assert_array_equal([bar.get_height() for bar in similar], expected)
    assert sum(bar.get_height() for bar in dissimilar) == 3
    assert counts.lines[0].get_xdata() == [0.5, 0.5]
    assert display.roc_auc == roc_auc_score(SAME, -distances)
    roc, _, threshold = curve.lines
    np.testing.assert_array_equal(roc.get_xydata(), np.c_[display.fpr, display.tpr])
    accepted = learner.predict_pairs(PAIRS) == 1
    expected = [[accepted[3:].mean(), accepted[:3].mean()]]
    np.testing.assert_array_equal(threshold.get_xydata(), expected)
    report = metrics.verification_report(SAME, distances, folds=2)
    assert display.equal_error_rate == report["equal_error_rate"]
    label = f"LFDA: area {display.roc_auc:.3f}, EER {display.equal_error_rate:.3f}"
    assert roc.get_label() == label
    alone = PairScoreDisplay.from_predictions(SAME, distances, roc=False)
    assert len(alone.figure_.axes) == 1
    assert not alone.ax_.lines  # no threshold
    similarity = mf.OASIS_Supervised(random_state=0).fit(X, Y)
    display = PairScoreDisplay.from_estimator(similarity, PAIRS, SAME)
    np.testing.assert_array_equal(display.distances, -similarity.pair_score(PAIRS))


def test_curves_are_those_of_the_training():
    display = LossCurveDisplay.from_estimator(SGD, color="black")
    np.testing.assert_array_equal(
        display.line_.get_xydata(), np.c_[1 : SGD.n_iter_ + 1, SGD.loss_curve_]
    )
    assert display.line_.get_color() == "black"
    scores = SGD.validation_scores_
    np.testing.assert_array_equal(display.validation_line_.get_ydata(), scores)
    assert display.validation_line_.get_markevery() == [int(np.argmax(scores))]
    other = LossCurveDisplay.from_estimator(make_pipeline(MLKR), name="other", ax=display.ax_)
    assert [line.get_label() for line in display.ax_.lines] == ["NCA", "other"]
    assert other.validation_line_ is None
    kernel = mf.KernelizedMetricLearner(mf.NCA(tol=1e-1), n_components=5).fit(X, Y)
    display = LossCurveDisplay.from_estimator(kernel)
    assert display.line_.get_ydata().tolist() == kernel.learner_.loss_curve_


def test_a_comparison_is_drawn_with_intervals_and_notes():
    display = ComparisonDisplay.from_comparison(COMPARISON, color="black")
    rows = COMPARISON.rows
    tried = [row for row in rows if not np.isnan(row.score)]
    assert 0 < len(tried) < len(rows)
    line, _, (bars,) = display.intervals_
    np.testing.assert_array_equal(line.get_xdata(), [row.score for row in tried])
    ends = np.array([each[:, 0] for each in bars.get_segments()])
    np.testing.assert_allclose(ends, [(row.low, row.high) for row in tried])
    labels = display.ax_.get_yticklabels()
    assert [each.get_text() for each in labels] == [row.learner for row in rows]
    grey = [each.get_color() == BASELINE for each in labels]
    assert grey == [bool(np.isnan(row.score)) for row in rows]
    texts = [each.get_text() for each in display.ax_.texts]
    assert texts == [row.note or f"{row.fit_seconds:.2f} s" for row in rows]
    base = next(row for row in rows if row.learner == COMPARISON.baseline)
    assert display.ax_.lines[-1].get_xdata() == [base.score] * 2


def test_a_judgement_is_drawn_with_its_band():
    display = JudgementDisplay.from_estimator(PIPELINE, color="black")
    found = PIPELINE[-1].judgement_
    np.testing.assert_array_equal(display.line_.get_ydata(), found.costs)
    assert display.line_.get_markevery() == [found.chosen]
    assert display.line_.get_color() == "black"
    assert display.ax_.lines[1].get_ydata() == [found.costs[0]] * 2
    corners = display.ax_.collections[0].get_paths()[0].vertices[:, 1]
    assert {*(found.costs - found.errors), *(found.costs + found.errors)} <= set(corners)
    assert found.name in display.ax_.get_xlabel()


def test_retrieval_is_drawn_with_its_interval_chance_and_oracle():
    display = RetrievalDisplay.from_report(REPORT)
    scores = [REPORT[f"recall_at_{k}"] for k in (1, 2, 5)]
    mean, oracle, chance = display.ax_.lines
    assert display.line_ is mean
    np.testing.assert_array_equal(
        mean.get_xydata(), [*zip((1, 2, 5), [s.mean for s in scores], strict=True)]
    )
    np.testing.assert_array_equal(oracle.get_ydata(), [s.oracle for s in scores])
    np.testing.assert_array_equal(chance.get_ydata(), [s.chance for s in scores])
    (band,) = display.ax_.collections
    corners = band.get_paths()[0].vertices
    for k, score in zip((1, 2, 5), scores, strict=True):
        assert set(score.interval) <= set(corners[corners[:, 0] == k, 1])
    assert display.ax_.get_ylabel() == "recall@k"
    learned = RetrievalDisplay.from_estimator(
        PIPELINE, X, Y, k=[1, 2], baselines=False, ax=display.ax_
    )
    expected = metrics.recall_at_k(PIPELINE.transform(X), Y, k=2)
    assert learned.line_.get_ydata()[1] == expected
    assert len(display.ax_.lines) == 4
    by_numbers = RetrievalDisplay.from_estimator(MLKR, X, NUMBERS, metric="ndcg_at_k", k=(1, 4))
    assert by_numbers.metric == "ndcg_at_k"
    assert list(by_numbers.scores) == [1, 4]


def test_two_maps_are_asked_for_both_sides():
    votes = mf.AsymmetricSimilarity(random_state=0, solver=mf.solvers.Adam(max_epochs=3)).fit(X, Y)
    queries, database = (votes.transform(X, side=side) for side in ("query", "database"))
    expected = mf.kneighbors(queries[[5]], database, 4, exclude=[5])
    display = NeighborsDisplay.from_estimator(votes, X, [5], n_neighbors=4)
    np.testing.assert_array_equal(display.indices, expected[1])
    np.testing.assert_array_equal(display.distances, expected[0])


def test_neighbours_are_images_with_captions_in_colour():
    display = NeighborsDisplay.from_estimator(
        LFDA, X, [70, 0], n_neighbors=3, images=IMAGES, y=Y, cmap="magma"
    )
    Z = LFDA.transform(X)
    distances, indices = mf.kneighbors(Z[[70, 0]], Z, 3, exclude=[70, 0])
    np.testing.assert_array_equal(display.indices, indices)
    drawn = np.array([image.get_array() for image in display.ax_.images])
    np.testing.assert_array_equal(drawn, IMAGES[np.c_[[70, 0], indices].ravel()])
    assert display.ax_.images[0].get_cmap().name == "magma"
    captions = [text.get_text() for text in display.ax_.texts]
    assert captions[0] == f"query, {Y[70]}"
    assert captions[1] == f"{distances[0, 0]:.3g}, {Y[indices[0, 0]]}"
    colors = [
        to_hex(text.get_color()) for text in display.ax_.texts if "query" not in text.get_text()
    ]
    same = Y[indices] == Y[[70, 0]][:, None]
    assert colors == [SIMILAR if each else DISSIMILAR for each in same.ravel()]
    assert not same.all()


def test_neighbours_without_images_have_names():
    names = [f"flower {i}" for i in range(150)]
    display = NeighborsDisplay.from_estimator(MLKR, X, [7], n_neighbors=1, names=names, y=NUMBERS)
    nearest = display.indices[0, 0]
    told = [text.get_text() for text in display.ax_.texts]
    assert told[0] == "flower 7"
    assert told[2] == names[nearest]
    assert told[3].endswith(f", {NUMBERS[nearest]:.3g}")
    assert {text.get_color() for text in display.ax_.texts} == {"black"}  # numbers, not classes
    display = NeighborsDisplay.from_estimator(LFDA, X, [7], n_neighbors=1)
    assert display.ax_.texts[0].get_text() == "7"
    found = mf.kneighbors(X[:2], X[2:], 2)
    display = NeighborsDisplay.from_neighbors(
        *found, images=IMAGES[2:], y=Y[2:], query_images=IMAGES[:2], query_y=Y[:2]
    )
    assert len(display.ax_.images) == 6


LEARNED, FOUND = NeighborsDisplay.from_estimator, NeighborsDisplay.from_neighbors
SPACES, SHARES = EmbeddingDisplay.from_embeddings, FeatureRelevanceDisplay.from_estimator
COMPONENTS, CURVES = FeatureRelevanceDisplay.from_components, LossCurveDisplay.from_curves
RETRIEVED, REPORTED = RetrievalDisplay.from_estimator, RetrievalDisplay.from_report
WRONG = [
    (EmbeddingDisplay.from_estimator, (mf.OASIS(), X, Y), {}, "estimator must have `transform`"),
    (EmbeddingDisplay.from_estimator, (LFDA, X, Y[:9]), {}, "y must hold 150"),
    (EmbeddingDisplay.from_estimator, (LFDA, X, Y), {"before": 2}, "before must"),
    (EmbeddingDisplay.from_estimator, (LFDA, X, Y), {"n_neighbors": 150}, "n_neighbors must"),
    (SPACES, (X, Y), {}, "embeddings must be a dict"),
    (SPACES, ({"a": X, "b": X[1:]}, Y), {}, r"embeddings\['b'\]: expected 150 points"),
    (SPACES, ({"a": X}, Y), {"continuous": 2}, "continuous must"),
    (SHARES, (mf.OASIS(),), {}, "estimator must learn a Mahalanobis distance"),
    (SHARES, (LFDA,), {"feature_names": ["a"]}, "feature_names must be 4"),
    (SHARES, (LFDA,), {"max_features": 0}, "max_features must"),
    (SHARES, (LFDA,), {"n_eigenvectors": -1}, "n_eigenvectors must"),
    (COMPONENTS, (X, X[:, :2]), {}, "X must have 4 columns"),
    (PairScoreDisplay.from_estimator, (plt, PAIRS, SAME), {}, "estimator must have `pair_score`"),
    (PairScoreDisplay.from_estimator, (LFDA, PAIRS, SAME), {"roc": "no"}, "roc must"),
    (PairScoreDisplay.from_estimator, (LFDA, PAIRS, [1] * 6), {}, "y must hold 1 or -1"),
    (PairScoreDisplay.from_predictions, (SAME[:5], [0.0] * 6), {}, "y_true must hold 1 or -1"),
    (PairScoreDisplay.from_predictions, (SAME, [np.nan] * 6), {}, "distances contains NaN"),
    (ComparisonDisplay.from_comparison, ([],), {}, "comparison must be the result of compare"),
    (JudgementDisplay.from_estimator, (mf.LFDA(judge=None),), {}, "estimator must be fitted, with"),
    (LossCurveDisplay.from_estimator, (LFDA,), {}, "estimator must be trained by iterations"),
    (CURVES, ([],), {}, "loss_curve is empty"),
    (CURVES, ([1.0], [[1.0]]), {}, "validation_scores must have shape"),
    (RETRIEVED, (mf.OASIS(), X, Y), {}, "estimator must have `transform`"),
    (RETRIEVED, (LFDA, X, Y), {"metric": "map_at_r"}, "metric must be"),
    (RETRIEVED, (LFDA, X, Y), {"k": (0, 1)}, "k must be a positive integer"),
    (REPORTED, ({},), {}, "report must be a RetrievalReport"),
    (REPORTED, (metrics.retrieval_report(X, Y),), {}, "report must have the metric"),
    (REPORTED, (REPORT,), {"metric": "ndcg_at_k"}, "metric is 'ndcg_at_k'"),
    (LEARNED, (mf.OASIS(), X, [0]), {}, "estimator must have `transform`"),
    (LEARNED, (LFDA, X, [150]), {}, "queries must hold indices from 0 to 149; found 150"),
    (LEARNED, (LFDA, X, X), {}, "queries must hold rows"),
    (LEARNED, (LFDA, X, [0]), {"images": X}, r"images must have shape \(150, height"),
    (LEARNED, (LFDA, X, [0]), {"names": ["a"]}, "names must hold one for each of 150"),
    (LEARNED, (LFDA, X, [0]), {"y": Y[1:]}, "y must hold one for each of 150"),
    (LEARNED, (LFDA, X, [0]), {"y": Y, "continuous": 2}, "continuous must"),
    (FOUND, ([[1.0]], [[1, 2]]), {}, "distances and indices must have one shape"),
    (FOUND, ([[1.0]], [[9]]), {"names": ["a"]}, "names must hold one for each of 10"),
    (FOUND, ([[1.0]], [[9]]), {"images": IMAGES}, "images and query_images must be given"),
]


@pytest.mark.parametrize(("draw", "given", "how", "message"), WRONG)
def test_bad_input_is_named(draw, given, how, message):
    with pytest.raises((ValueError, TypeError), match=message):
        draw(*given, **how)
    assert not plt.get_fignums()


def test_a_figure_of_ones_own_is_known_to_no_window():
    figure = mpl.figure.Figure()
    display = EmbeddingDisplay.from_estimator(LFDA, X, Y, ax=figure.subplots(1, 2))
    assert display.figure_ is figure
    assert not plt.get_fignums()


def test_votes_are_drawn_at_their_distances():
    found = VOTES.explain()
    row = int(found.loss.argmax())
    axes = VoteDisplay.from_explanation(found, queries=[row]).ax_
    assert axes.get_yticklabels()[0].get_text().startswith(f"{row}: {Y[row]}, vote")
    targeted, augmented, nearest, pulled, pushed = (
        drawn.get_offsets()[:, 0] for drawn in axes.collections
    )
    np.testing.assert_allclose(nearest, VOTES.kneighbors()[0][row])
    np.testing.assert_allclose([*pulled, *pushed], [
        *targeted[found.pulls[row]], *augmented[found.pushes[row]]
    ])  # fmt: skip
    assert len(pulled) > 0
    filled = axes.collections[2].get_facecolors()
    right = Y[found.nearest[row]] == Y[row]
    assert [to_hex(color) for color in filled] == [
        SIMILAR if each else DISSIMILAR for each in right
    ]
    with pytest.raises(ValueError, match="queries must hold indices from 0 to 149"):
        VoteDisplay.from_explanation(found, queries=[150])
    with pytest.raises(TypeError, match="estimator must have `explain`"):
        VoteDisplay.from_estimator(LFDA, X, Y)
