"""Wrong calls that users of scikit-learn make, and what each message must name."""

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import metricfast as mf
from metricfast import embeddings, losses, metrics, selection

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 4)), np.arange(60) % 3
PAIRS, SIGNS = X[RNG.integers(60, size=(20, 2))], np.tile([1, -1], 10)
NAMES = {
    **vars(mf),
    **{"np": np, "pd": pd, "losses": losses, "embeddings": embeddings},
    **{"metrics": metrics, "selection": selection},
    **{"make_pipeline": make_pipeline, "StandardScaler": StandardScaler},
    **{name: getattr(mf, name) for name in mf.__all__},
    **{"X": X, "Y": Y, "Q": X[:30], "D": X[30:], "PAIRS": PAIRS, "SIGNS": SIGNS},
    "NUMBERS": RNG.normal(size=20),
    "FITTED": mf.NCA(tol=0.1, early_stopping=False).fit(X, Y),
}
# The call, the error, and the texts of the message: argument, value found, remedy.
CALLS = [
    # parameters
    ("NCA(n_components='2').fit(X, Y)", ValueError, "n_components", "'2'", "1, 4", "features"),
    ("LFDA(n_components=2.0).fit(X, Y)", ValueError, "n_components", "2.0", "integer"),
    ("NCA(init='best').fit(X, Y)", ValueError, "init", "'pca'"),
    ("NCA(solver='sgd').fit(X, Y)", ValueError, "solver", "'sgd'", "mean solvers.SGD()?"),
    ("NCA(solver='L-BFGS').fit(X, Y)", ValueError, "solver", "'L-BFGS'", "mean 'lbfgs'?"),
    ("ANMM(judge='auto ').fit(X, Y)", ValueError, "judge", "'auto '", "None"),
    ("NCA(max_iter='10').fit(X, Y)", ValueError, "max_iter", "'10'", "integer"),
    ("NCA(tol=-1).fit(X, Y)", ValueError, "tol", "-1", "from 0"),
    ("NCA(random_state='0').fit(X, Y)", ValueError, "random_state", "'0'", "integer"),
    ("NCA(early_stopping=0.5).fit(X, Y)", ValueError, "early_stopping", "0.5", "HeldOut"),
    ("NCA(n_jobs=0).fit(X, Y)", ValueError, "n_jobs", "0", "None"),
    ("LMNN(n_neighbors='3').fit(X, Y)", ValueError, "n_neighbors", "'3'", "integer"),
    (
        *("LMNN(n_neighbors=3).fit(X[:8], np.repeat([0, 1], [6, 2]))", ValueError),
        *("n_neighbors=3", "class 1", "has 2", "Lower n_neighbors"),
    ),
    ("LFDA(shrinkage=2).fit(X, Y)", ValueError, "shrinkage", "2", "from 0 to 1"),
    ("XQDA(shrinkage=0)", TypeError, "XQDA", "shrinkage"),
    ("EmbeddingLearner().fit(X, Y)", TypeError, "loss"),
    (
        *("EmbeddingLearner('triplet').fit(X, Y)", TypeError),
        *("loss", "'triplet'", "metricfast.losses", "Did you mean losses.Triplet()?"),
    ),
    (
        *("EmbeddingLearner('multi_similarity').fit(X, Y)", TypeError),
        *("loss", "'multi_similarity'", "Did you mean losses.MultiSimilarity()?"),
    ),
    ("EmbeddingLearner(losses.NCA).fit(X, Y)", TypeError, "loss", "NCA()"),
    (
        *("EmbeddingLearner(losses.NCA(), embedding='mlp').fit(X, Y)", TypeError),
        *("embedding", "'mlp'", "metricfast.embeddings", "Did you mean embeddings.MLP()?"),
    ),
    (
        *("EmbeddingLearner(losses.NCA(), embedding=embeddings.MLP).fit(X, Y)", TypeError),
        *("embedding", "give MLP()"),
    ),
    ("losses.Triplet(margin='0.2')(X, Y)", ValueError, "margin", "'0.2'", "number"),
    # points and labels
    ("NCA().fit(X)", ValueError, "NCA", "requires y"),
    ("NCA().fit(X, Y[1:])", ValueError, "numbers of samples", "60", "59"),
    ("NCA().fit(Y, X)", ValueError, "X", "2D array", "1D array", "(60,)"),
    ("NCA().fit(X, X[:, 0])", ValueError, "y", "class labels", "MLKR"),
    ("NCA().fit(X, np.zeros(60))", ValueError, "y", "2 classes", "1 class"),
    ("NCA().fit(X, pd.get_dummies(Y))", ValueError, "y", "(60, 3)"),
    ("NCA().fit(X, Y, sample_weight=np.ones(3))", ValueError, "sample_weight", "(60,)", "(3,)"),
    ("NCA().fit(X, Y, sample_weight=-np.ones(60))", ValueError, "sample_weight", "negative"),
    ("NCA().fit(np.where(X > 1, np.nan, X), Y)", ValueError, "X", "NaN"),
    ("RCA().fit(X)", ValueError, "chunks", "None", "Give the chunk of each point"),
    (
        *("EmbeddingLearner(losses.NCA()).fit(X, Y, sample_weight=np.ones(60))", TypeError),
        *("EmbeddingLearner.fit", "sample_weight", "repeat its row"),
    ),
    # tuples
    ("ITML().fit(X, Y)", ValueError, "tuples", "(60, 4)", "ITML_Supervised"),
    ("LSML().fit(X, Y)", ValueError, "tuples", "(60, 4)", "LSML_Supervised"),
    ("SCML().fit(X, Y)", ValueError, "tuples", "(60, 4)", "SCML_Supervised"),
    ("ITML().fit(PAIRS, (SIGNS + 1) // 2)", ValueError, "y", "-1, 1", "np.where(y, 1, -1)"),
    ("ITML().fit(PAIRS)", TypeError, "y"),
    ("AdapterLearner().fit(Q, D)", ValueError, "tuples", "(30, 4)", "X_database"),
    (
        *("AdapterLearner(side='query').fit(Q, X_database=D[1:])", ValueError),
        *("X_database", "30", "29", "sparse matrix"),
    ),
    # fitted learners
    ("NCA().transform(X)", NotFittedError, "NCA", "fit"),
    ("FITTED.transform(X[:, :3])", ValueError, "X", "3 features", "4 features"),
    ("FITTED.transform(X[0])", ValueError, "2D array", "1D array", "Reshape"),
    ("FITTED.predict_pairs(PAIRS)", AttributeError, "threshold", "calibrate_threshold"),
    (
        *("FITTED.calibrate_threshold(PAIRS, SIGNS, strategy='far')", ValueError),
        *("Strategy", '"far"', '"max_tpr"'),
    ),
    (
        *("FITTED.calibrate_threshold(PAIRS, SIGNS, far=1e-3, min_rate=0.9)", ValueError),
        *("far=0.001", "leave out strategy and min_rate", "min_rate=0.9"),
    ),
    ("FITTED.calibrate_threshold(PAIRS, SIGNS, far=-0.1)", ValueError, "far", "-0.1", "above 0"),
    # neighbours and databases
    ("KNeighborsClassifier(metric=NCA).fit(X, Y)", TypeError, "metric", "NCA()"),
    ("KNeighborsClassifier(metric='mahal').fit(X, Y)", ValueError, "metric", "'mahal'", "valid"),
    (
        *("KNeighborsClassifier(metric=FITTED.get_mahalanobis_matrix()).fit(X, Y)", ValueError),
        *("metric", "symmetric", '("M", M)'),
    ),
    ("KNeighborsClassifier(metric=ITML()).fit(X, Y)", ValueError, "metric=ITML()", "tuples"),
    (
        *("KNeighborsClassifier(100).fit(X, Y).predict(X)", ValueError),
        *("n_neighbors", "at most 60", "100"),
    ),
    ("kneighbors(X, X[:, :3])", ValueError, "database", "4 columns", "3"),
    ("AsymmetricSimilarity().fit(Q, Y[:30], D)", ValueError, "X_database and y_database"),
    (
        *("FixedDatabase(AdapterLearner(), D, Y[30:]).fit(Q, Y[:30])", TypeError),
        *("estimator", "y_database", "AdapterLearner()", "EmbeddingLearner"),
    ),
    # metrics, comparison, files
    ("metrics.retrieval_report(X, Y, metrics=['map'])", ValueError, "metrics", "map_at_r", "'map'"),
    (
        *("metrics.retrieval_report(X, Y, metrics='recall_at')", ValueError),
        *("metrics", "'recall_at'", "Did you mean 'recall_at_k'?"),
    ),
    (
        *("metrics.mean_label_distance_at_k(X, Y, label_distance='euclidian')", ValueError),
        *("label_distance", "'euclidian'", "Did you mean 'euclidean'?"),
    ),
    (
        *("LFDA(judge=selection.Judge(measure='retreival')).fit(X, Y)", ValueError),
        *("measure", "'retreival'", "Did you mean 'retrieval'?"),
    ),
    (
        *("LFDA(judge=selection.Judge(unit='class')).fit(X, Y)", ValueError),
        *("unit", "'class'", "Did you mean 'classes'?"),
    ),
    (
        *("metrics.identification_report(Q, Y[:30], D, Y[30:])", ValueError),
        *("labels", "database_labels", "only"),
    ),
    (
        *("metrics.identification_report(Q, Y[:30], D, Y[30:], fpir=5)", ValueError),
        *("fpir", "5", "0 to 1"),
    ),
    ("metrics.recall_at_k(X, Y, k=(1, 5))", ValueError, "k must be", "retrieval_report"),
    (
        *("metrics.verification_report(SIGNS, NUMBERS, far='0.1')", ValueError),
        *("far", "'0.1'", "number"),
    ),
    ("metrics.verification_report(SIGNS, NUMBERS[1:])", ValueError, "y_true", "19", "(20,)"),
    ("compare(X, Y, learners=['NCAA'])", ValueError, "learners", "NCA", "'NCAA'"),
    ("compare(X, Y, cv=1)", ValueError, "cv", "at least 2", "1"),
    ("save(NCA(), 'x.safetensors')", NotFittedError, "NCA", "fit"),
    (
        *("save(make_pipeline(LFDA(), KNeighborsClassifier()), 'x.safetensors')", TypeError),
        *("'kneighborsclassifier'", "KNeighborsClassifier()", "skops"),
    ),
]


@pytest.mark.parametrize(("call", "error", "named"), [(c, e, n) for c, e, *n in CALLS])
def test_the_message_names_argument_value_and_remedy(call, error, named):
    with pytest.raises(error) as raised:
        eval(call, dict(NAMES))
    message = str(raised.value)
    missing = [text for text in named if text not in message]
    assert not missing, message
    assert not re.search(r"\b(Base\w+|_\w+)\.", message), "names an inner class"
    assert len(message) < 1500
