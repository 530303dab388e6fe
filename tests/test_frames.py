"""Tables of pandas, polars, Arrow and others, as points, as labels and as output."""

import datetime
import decimal
import pickle
from itertools import product

import numpy as np
import pytest
import sklearn
from registry import POINTS, entry_of, make, of_points
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from takers import OF_LABELS, OF_POINTS, PAIRS, QUICK, VALUES, X, Y
from thinned import thinned
from trained import embedding_learner
from working_memory import working_memory

import metricfast as mf
from metricfast import embeddings, losses, metrics, sources
from metricfast._core.frames import _KNOWS_POLARS

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
nw = pytest.importorskip("narwhals")

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:The distance that"
)
NAMES = list("abcd")
SPECIES = np.array(["s", "t", "u"])[Y]
PANDAS = pd.DataFrame(X, columns=NAMES)
ARROW = pa.table(dict(zip(NAMES, X.T, strict=True)))


class Stream:
    """A frame that only supports export to Arrow."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class Interchanged:
    """A frame that only supports the interchange protocol."""

    def __init__(self, table):
        self._table = table

    def __dataframe__(self, nan_as_null=False, allow_copy=True):
        return self._table.__dataframe__(nan_as_null, allow_copy)


FRAMES = {
    "pandas": PANDAS,
    "pandas nullable": PANDAS.convert_dtypes(),
    "pandas of Arrow": PANDAS.convert_dtypes(dtype_backend="pyarrow"),
    "polars": pl.DataFrame(X, schema=NAMES),
    "Arrow": ARROW,
    "batch": ARROW.to_batches()[0],
    "narwhals": nw.from_native(pl.DataFrame(X, schema=NAMES)),
    "stream": Stream(ARROW),
    "interchange": Interchanged(ARROW),
}
LABELS = {
    "pandas": pd.Series(SPECIES),
    "pandas with an index": pd.Series(SPECIES, index=np.arange(len(Y))[::-1]),
    "categories": pd.Series(SPECIES, dtype="category"),
    "categorical": pd.Categorical(SPECIES),
    "ordered": pd.Series(pd.Categorical(SPECIES, categories=["u", "t", "s"], ordered=True)),
    "string": pd.Series(SPECIES, dtype="string"),
    "string of Arrow": pd.Series(SPECIES, dtype=pd.ArrowDtype(pa.string())),
    "polars": pl.Series(SPECIES),
    "polars categories": pl.Series(SPECIES).cast(pl.Categorical),
    "polars enum": pl.Series(SPECIES).cast(pl.Enum(["u", "t", "s"])),
    "Arrow": pa.array(SPECIES),
    "Arrow chunks": pa.chunked_array([SPECIES[:10], SPECIES[10:]]),
    "Arrow dictionary": pa.array(SPECIES).dictionary_encode(),
    "narwhals": nw.from_native(pl.Series(SPECIES), series_only=True),
}
NUMBERED = {
    "Int64": pd.Series(Y, dtype="Int64"),
    "int64 of Arrow": pd.Series(Y, dtype="int64[pyarrow]"),
    "polars": pl.Series(Y),
    "Arrow": pa.array(Y),
}
MEASURED = {
    "Float64": pd.Series(VALUES, dtype="Float64"),
    "double of Arrow": pd.Series(VALUES, dtype="double[pyarrow]"),
    "polars": pl.Series(VALUES),
    "Arrow": pa.array(VALUES),
    "Arrow chunks": pa.chunked_array([VALUES[:10], VALUES[10:]]),
}
every_frame = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


def data(learner):
    return () if entry_of(learner).takes == POINTS else (Y,)


@pytest.mark.parametrize(
    ("name", "kind"),
    thinned(
        product(OF_POINTS, FRAMES),
        lambda case: case[0] in ("learned", "kneighbors") or case[1] in ("polars", "stream"),
    ),
)
def test_whatever_takes_points_takes_frames(name, kind):
    np.testing.assert_allclose(OF_POINTS[name](FRAMES[kind]), OF_POINTS[name](X))


KINDS = LABELS | {f"numbers {name}": column for name, column in NUMBERED.items()}


@pytest.mark.parametrize(
    ("name", "kind"),
    thinned(
        product(OF_LABELS, KINDS),
        lambda case: case[0] in ("NCA", "neighbours") or case[1] in ("categories", "polars enum"),
    ),
)
def test_columns_are_labels(name, kind):
    call, labels = OF_LABELS[name], KINDS[kind]
    known = SPECIES if np.asarray(labels).dtype.kind not in "iu" else Y
    np.testing.assert_array_equal(call(labels), call(known))


@pytest.mark.parametrize("labels", [LABELS["categories"], LABELS["polars enum"], LABELS["Arrow"]])
def test_classes_of_columns_are_their_values(labels):
    model = mf.KNeighborsClassifier(3).fit(X, labels)
    assert model.classes_.tolist() == ["s", "t", "u"]
    assert set(model.predict(X)) == {"s", "t", "u"}


@pytest.mark.parametrize("values", MEASURED.values(), ids=MEASURED)
@pytest.mark.parametrize(
    "call",
    [
        *(lambda y, kind=kind: make(kind).fit(X, y).pair_score(PAIRS) for kind in of_points()
          if entry_of(kind).takes == "values"),
        lambda y: mf.KNeighborsRegressor(3).fit(X, y).predict(X),
        lambda y: mf.NCARegressor(**QUICK).fit(X, y).predict(X),
        lambda y: losses.LogRatio()(X, y)[0],
    ],
)  # fmt: skip
def test_columns_are_numbers(call, values):
    np.testing.assert_array_equal(call(values), call(VALUES))


@pytest.mark.parametrize(
    "name", ["Int64", "string", "boolean", "category", "polars", "Arrow", "dictionary", "table"]
)
@pytest.mark.parametrize("model", [mf.NCA(), mf.KNeighborsClassifier(), mf.NCAClassifier()])
def test_missing_labels_are_refused(model, name):
    labels = {
        "Int64": pd.Series([1, None, 2] * 25, dtype="Int64"),
        "string": pd.Series(["a", None, "b"] * 25, dtype="string"),
        "boolean": pd.Series([True, None, False] * 25, dtype="boolean"),
        "category": pd.Series(["a", None, "b"] * 25, dtype="category"),
        "polars": pl.Series([1, None, 2] * 25),
        "Arrow": pa.array(["a", None, "b"] * 25),
        "dictionary": pa.chunked_array([pa.array(["a", None, "b"] * 25).dictionary_encode()]),
        "table": pa.table({"y": pa.array(["a", None, "b"] * 25).dictionary_encode()}),
    }[name]
    with pytest.raises(ValueError, match="y contains"):
        clone(model).fit(X, labels)


@every_frame
@pytest.mark.parametrize(
    "model",
    [
        mf.LFDA(),
        mf.KNeighborsClassifier(),
        mf.NCAClassifier(**QUICK),
        mf.TripletLearner(max_epochs=1, judge=None),
    ],
    ids=lambda model: type(model).__name__,
)
def test_other_columns_are_refused(model, frame):
    fitted = clone(model).fit(frame, Y)
    ask = getattr(fitted, "predict", None) or fitted.transform
    table = PANDAS[list("bacd")]
    orders = [table, pl.from_pandas(table), pa.Table.from_pandas(table, preserve_index=False)]
    for other in (*orders, Stream(orders[-1])):
        with pytest.raises(ValueError, match="must be in the same order"):
            ask(other)
    for other in (ARROW.rename_columns(["z", "b", "c", "d"]), PANDAS.rename(columns={"a": "z"})):
        with pytest.raises(ValueError, match=r"Feature names unseen at fit time:\n- z"):
            ask(other)
    with pytest.raises(ValueError, match="feature names"):
        ask(ARROW.select(list("abc")))


def as_tags(frame):
    return pd.DataFrame(np.asarray(frame) > 2, columns=frame.columns)


# Everything that takes two tables of points, or of labels.
OF_TWO = {
    "distances": mf.pairwise_distances,
    "pairs": mf.paired_distances,
    "gradient": lambda A, B: mf.metric_gradient(A, np.ones((N, N)), B, L=np.eye(4)),
    "kneighbors": mf.kneighbors,
    "per class": lambda A, B: mf.neighbors.kneighbors_per_class(A, B, Y, 2),
    "radius": lambda A, B: mf.neighbors.radius_neighbors(A, B, 1.0),
    "database": lambda A, B: mf.Database(A).kneighbors(B),
    "database, add": lambda A, B: mf.Database(A).add(B),
    "database, pickled": lambda A, B: pickle.loads(pickle.dumps(mf.Database(A))).kneighbors(B),
    "sets": lambda A, B: mf.inference.targeted(A, B, Y, Y, 3),
    "loss": lambda A, B: losses.NCA()(A, Y, B, Y),
    "precision": lambda A, B: metrics.precision_at_1(A, Y, B, Y),
    "report": lambda A, B: metrics.retrieval_report(A, Y, B, Y),
    "relevance": lambda A, B: metrics.relevance_report(A, np.eye(N), B),
    "adapter": lambda A, B: mf.AdapterLearner().fit(A, None, B),
    "adapter of a side": lambda A, B: mf.AdapterLearner(side="query").fit(A, None, B),
    "adapter, score": lambda A, B: mf.AdapterLearner().fit(A, None, A + A * A).score(A, None, B),
    "learner": lambda A, B: embedding_learner(losses.NCA()).fit(A, Y, B, Y),
    "learner, part": lambda A, B: embedding_learner(losses.NCA()).partial_fit(
        A, Y, X_database=B, y_database=Y
    ),
    "learner, search": lambda A, B: (
        embedding_learner(losses.NCA(), max_epochs=1).fit(A, Y).kneighbors(A, B)
    ),
    "two maps": lambda A, B: embedding_learner(
        losses.NCA(), embeddings.Asymmetric(embeddings.Linear(2), embeddings.Linear(2))
    ).fit(A, Y, B, Y),
    "votes": lambda A, B: mf.AsymmetricSimilarity().fit(A, Y, B, Y),
    "votes, one map": lambda A, B: mf.AsymmetricSimilarity(tied=True).fit(A, Y, B, Y),
    "fixed": lambda A, B: mf.FixedDatabase(mf.AsymmetricSimilarity(), B, Y).fit(A, Y),
    "prediction": lambda A, B: mf.KNeighborsClassifier().fit(A, Y).predict(B),
    "relevance of features": mf.plotting.FeatureRelevanceDisplay.from_components,
    "comparison": lambda A, B: mf.compare(
        A, Y, learners=["LFDA"], cv=2, scale=False
    ).best_estimator_.predict(B),
    "numbers as labels": lambda A, B: losses.LogRatio()(X, A, X, B),
    "numbers, ranking": lambda A, B: metrics.mean_label_distance_at_k(X, A, X, B),
    "numbers, learner": lambda A, B: embedding_learner(losses.LogRatio()).fit(X, A, X, B),
    "tags": lambda A, B: losses.SupCon()(X, as_tags(A), X, as_tags(B)),
}


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("name", OF_TWO)
def test_columns_in_another_order_are_refused(name, package):
    first, second = (in_package(PANDAS[list(names)], package) for names in ("abcd", "bacd"))
    with pytest.raises(ValueError, match="must be in the same order"):
        OF_TWO[name](first, second)


def test_a_database_of_a_file_keeps_the_names_of_columns(tmp_path):
    mf.Database(PANDAS).save(tmp_path / "database")
    database = mf.Database.load(tmp_path / "database")
    with pytest.raises(ValueError, match="must be in the same order: 'a' is at place 0 of the dat"):
        database.kneighbors(PANDAS[list("bacd")])


def test_other_names_of_columns_are_compared_by_their_places():
    for other in (PANDAS.set_axis(list("wxyz"), axis=1), PANDAS.set_axis(range(4), axis=1), X):
        np.testing.assert_array_equal(
            mf.pairwise_distances(PANDAS, other), mf.pairwise_distances(X)
        )


def with_column(column):
    return PANDAS.assign(c=column)


N = len(X)
BAD = {  # column, its error message, whether table classifiers take it
    "text": (["red", "blue", "green"] * 25, "holds text", False),
    "objects": (pd.Series(["red", None, None] * 25, dtype=object), "holds text", False),
    "categories": (pd.Series(["red", "blue", None] * 25, dtype="category"), "categories", True),
    "Int64": (pd.Series([1, None, 2] * 25, dtype="Int64"), "NaN or ", True),
    "Float64": (pd.Series([1.5, None, 2] * 25, dtype="Float64"), "NaN or ", True),
    "Arrow": (pd.Series([1.5, None, 2] * 25, dtype="double[pyarrow]"), "NaN or ", True),
    "boolean": (pd.Series([True, None, False] * 25, dtype="boolean"), "NaN or ", True),
    "NaN": ([1.5, np.nan, 2] * 25, "NaN or ", True),
    "infinity": ([1.5, np.inf, 2] * 25, "infinity", False),
    "dates": (pd.date_range("2020", periods=N), "holds dates", False),
    "zoned": (pd.date_range("2020", periods=N, tz="UTC"), "holds dates", False),
    "durations": (pd.to_timedelta(np.arange(N), unit="D"), "holds dates", False),
    "days": ([datetime.date(2020, 1, 1)] * N, "must hold numbers", False),
    "lists": (pd.Series([[1, 2]] * N), "or an array of them, as np.stack(", False),
    "arrays": (pd.Series([np.ones(2)] * N), "or an array of them, as np.stack(", False),
}


def in_package(frame, package):
    if package == "pandas":
        return frame
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return pl.from_arrow(table) if package == "polars" else table


every_package = pytest.mark.parametrize("package", ["pandas", "polars", "Arrow"])
every_fault = pytest.mark.parametrize(("column", "text", "taken"), BAD.values(), ids=BAD)


@every_package
@every_fault
def test_an_error_names_the_column(package, column, text, taken):
    """Tests both entry points of points; `test_bad_input_everywhere` tests all functions."""
    del taken
    frame = in_package(with_column(column), package)
    for call in (lambda: mf.NCA(max_iter=1).fit(frame, Y), lambda: mf.kneighbors(frame, frame, 2)):
        with pytest.raises(ValueError, match="column 'c'") as told:
            call()
        assert text in str(told.value)


@every_package
@every_fault
def test_classifiers_of_tables_take_missing_values_and_categories(package, column, text, taken):
    frame, model = in_package(with_column(column), package), mf.NCAClassifier(**QUICK)
    if taken:
        expected = clone(model).fit(with_column(column), Y).predict_proba(with_column(column))
        found = model.fit(frame, Y).predict_proba(frame)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    else:
        with pytest.raises(ValueError, match="column 'c'"):
            model.fit(frame, Y)


def test_an_error_tells_what_to_do():
    with pytest.raises(ValueError, match=r"OneHotEncoder.* or give X to NCAClassifier"):
        mf.NCA().fit(with_column(["red"] * N), Y)
    with pytest.raises(ValueError, match=r"has 25 of them; .*SimpleImputer.*or give X to NCAC"):
        mf.NCA().fit(with_column(pd.Series([1, None, 2] * 25, dtype="Int64")), Y)
    with pytest.raises(ValueError, match=r"^queries must hold numbers; its column 'c' holds dates"):
        mf.kneighbors(with_column(pd.date_range("2020", periods=N)), X, 2)
    with pytest.raises(TypeError, match=r"^X is a LazyFrame, .*: give X.collect\(\)"):
        mf.NCA().fit(pl.DataFrame(X, schema=NAMES).lazy(), Y)
    with pytest.raises(TypeError, match=r"^queries is a LazyFrame"):
        mf.kneighbors(pl.DataFrame(X, schema=NAMES).lazy(), n_neighbors=2)


@pytest.mark.parametrize(
    "column", [pd.Series(list(X)), *(of(X.tolist()) for of in (pd.Series, pl.Series, pa.array))]
)
@pytest.mark.parametrize(
    "call",
    [
        lambda A: mf.LFDA().fit(A, Y),
        lambda A: mf.KNeighborsClassifier().fit(A, Y),
        lambda A: mf.NCAClassifier(**QUICK).fit(A, Y),
        lambda A: mf.kneighbors(A, n_neighbors=2),
        lambda A: metrics.retrieval_report(A, Y),
        lambda A: mf.compare(A, Y, learners=["LFDA"]),
        lambda A: mf.LFDA(preprocessor=A).fit(np.arange(N), Y),
    ],
)
def test_a_column_of_arrays_is_to_be_stacked(call, column):
    with pytest.raises(ValueError, match=r"^(X|queries) must hold .* give np.stack\((X|queries)\)"):
        call(column)


EQUAL = {  # two columns with the same name
    "pandas": PANDAS.set_axis(["a", "b", "a", "d"], axis=1),
    "pandas numbers": PANDAS.set_axis([0, 1, 0, 2], axis=1),
    "Arrow": ARROW.rename_columns(["a", "b", "a", "d"]),
    "stream": Stream(ARROW.rename_columns(["a", "b", "a", "d"])),
}


READERS = {
    "fit": lambda A: mf.NCA(max_iter=1).fit(A, Y),
    "predict": lambda A: mf.KNeighborsClassifier().fit(PANDAS, Y).predict(A),
    "soft": lambda A: mf.NCAClassifier(**QUICK).fit(A, Y),
    "soft predict": lambda A: mf.NCAClassifier(**QUICK).fit(PANDAS, Y).predict(A),
    "comparison": lambda A: mf.compare(A, Y, learners=["LFDA"], cv=2),
    "search": lambda A: mf.kneighbors(A, A, 2),
}


@pytest.mark.parametrize("kind", EQUAL)
@pytest.mark.parametrize("name", READERS)
def test_equal_names_of_columns_are_named(name, kind):
    if name == "search" and "pandas" in kind:
        READERS[name](EQUAL[kind])  # functions ignore column names
        return
    with pytest.raises(ValueError, match=r" has 2 columns named ('a'|0): give each column a name"):
        READERS[name](EQUAL[kind])


@pytest.mark.parametrize("column", [[True, False, True] * 25, [decimal.Decimal("1.5")] * N, Y])
@every_package
def test_numbers_of_any_type_are_numbers(column, package):
    frame = with_column(column)
    expected = mf.LFDA().fit(frame.astype(float), Y).components_
    found = mf.LFDA().fit(in_package(frame, package), Y).components_
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize(
    "frame",
    [
        PANDAS.astype("float32"),
        PANDAS.astype("Float32"),
        PANDAS.astype("float32[pyarrow]"),
        pl.DataFrame(X, schema=NAMES).cast(pl.Float32),
        ARROW.cast(pa.schema([(name, pa.float32()) for name in NAMES])),
    ],
    ids=["pandas", "nullable", "pandas of Arrow", "polars", "Arrow"],
)
def test_frames_of_single_precision_stay_so(frame):
    assert mf.LFDA().fit(frame, Y).components_.dtype == np.float32
    assert mf.pairwise_distances(frame).dtype == np.float32
    assert mf.KNeighborsClassifier().fit(frame, Y).kneighbors(frame)[0].dtype == np.float32


def test_tables_of_arrow_stay_where_they_are():
    table = pa.table({"a": np.arange(5000.0), "b": np.arange(5000.0) % 7})
    expected = mf.kneighbors(np.asarray(table), n_neighbors=2)[1]
    with working_memory(400_000):
        np.testing.assert_array_equal(mf.kneighbors(table, n_neighbors=2)[1], expected)
    with pytest.raises(ValueError, match="data must hold numbers; its column 'c' holds text"):
        sources.Columns(pa.table({"a": [1.0], "c": ["x"]}))
    with pytest.raises(ValueError, match="of its column 'c'"):
        sources.Columns(pa.table({"a": [1.0], "c": [None]}))[:]


@pytest.mark.parametrize(
    ("learner", "package"),
    thinned(
        product([kind for kind in of_points() if hasattr(kind, "transform")], ["polars", "pandas"]),
        lambda case: case[0] in (mf.LFDA, mf.NCA, mf.TripletLearner, mf.AsymmetricSimilarity),
    ),
)
def test_transformers_return_frames(learner, package):
    frame = FRAMES[package]
    model = make(learner).set_output(transform=package)
    names = model.fit(frame, *data(learner)).get_feature_names_out().tolist()
    embedded = model.transform(frame)
    assert type(embedded).__module__.partition(".")[0] == package
    assert list(embedded.columns) == names
    assert names[0] == f"{learner.__name__.lower()}0"
    np.testing.assert_array_equal(
        np.asarray(embedded), make(learner).fit(frame, *data(learner)).transform(frame)
    )
    assert type(clone(model).fit_transform(frame, *data(learner))) is type(embedded)
    # Internal calls of `transform` do not depend on the setting.
    with sklearn.config_context(transform_output=package):
        model = make(learner).fit(frame, *data(learner))
        neighbors = mf.KNeighborsClassifier(3, metric=model).fit(frame, Y)
        assert neighbors.predict(frame).shape == Y.shape
        if data(learner) and learner is not mf.RCA:
            make(learner).fit(frame, Y, validate=True)


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("kind", [mf.NCAClassifier, mf.NCARegressor])
def test_predictors_that_embed_return_frames(kind, package):
    model = kind(**QUICK).set_output(transform=package).fit(FRAMES[package], Y)
    embedded = model.transform(FRAMES[package])
    assert type(embedded).__module__.partition(".")[0] == package
    names = [f"{kind.__name__.lower()}{i}" for i in range(embedded.shape[1])]
    assert list(embedded.columns) == names


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("method", ["nystroem", "kpca"])
@pytest.mark.parametrize("learner", [mf.LFDA(), mf.GMML(), mf.OASIS_Supervised(random_state=0)])
def test_maps_of_kernels_are_not_troubled_by_frames(learner, method, package):
    model = mf.KernelizedMetricLearner(learner, method=method, n_components=9, random_state=0)
    given = (PAIRS, [1, -1, 1]) if learner._tuple_size else (X, Y)
    expected = clone(model).fit(*given)
    with sklearn.config_context(transform_output=package):
        model.fit(*given)
        nested = mf.KernelizedMetricLearner(clone(model), n_components=9, random_state=0).fit(
            *given
        )
        assert np.isfinite(nested.get_metric()(X[0], X[60]))
        for found in (model, pickle.loads(pickle.dumps(model))):
            np.testing.assert_array_equal(found.pair_score(PAIRS), expected.pair_score(PAIRS))
            assert found.get_metric()(X[0], X[60]) == expected.get_metric()(X[0], X[60])
            if hasattr(learner, "transform"):
                np.testing.assert_array_equal(found.transform(X), expected.transform(X))


@pytest.mark.parametrize("package", ["pandas", "polars"])
@pytest.mark.parametrize("kind", [mf.NCAClassifier, mf.NCARegressor])
def test_encoders_of_tables_are_not_troubled_by_frames(kind, package):
    table = pd.DataFrame(X, columns=NAMES).assign(kind=pd.Categorical(SPECIES))
    table.loc[3, "a"] = np.nan
    with sklearn.config_context(transform_output=package):
        found = kind(**QUICK).fit(table, Y).predict(table)
    np.testing.assert_array_equal(found, kind(**QUICK).fit(table, Y).predict(table))


# Scalers of earlier versions of scikit-learn see no names in frames of polars.
@pytest.mark.parametrize("package", ["pandas", "polars"] if _KNOWS_POLARS else ["pandas"])
def test_pictures_of_frames(package):
    plt = pytest.importorskip("matplotlib.pyplot")
    from metricfast import plotting

    frame = FRAMES[package]
    backend = plt.get_backend()
    plt.switch_backend("Agg")
    try:
        with sklearn.config_context(transform_output=package):
            nca = mf.NCA(n_components=2, max_iter=3)
            for model in (make_pipeline(StandardScaler(), nca).fit(frame, Y), nca.fit(frame, Y)):
                plotting.EmbeddingDisplay.from_estimator(model, frame, LABELS[package])
                plotting.NeighborsDisplay.from_estimator(model, frame, [0, 60], y=LABELS[package])
                plotting.RetrievalDisplay.from_estimator(model, frame, LABELS[package])
                plotting.LossCurveDisplay.from_estimator(model)
                relevance = plotting.FeatureRelevanceDisplay.from_estimator(model, frame)
                assert list(relevance.feature_names) == NAMES
            plotting.PairScoreDisplay.from_estimator(model, PAIRS, [1, -1, 1])
    finally:
        plt.close("all")
        plt.switch_backend(backend)
