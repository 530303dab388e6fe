"""Calls that take points or labels, for tests of what these may be given as."""

import numpy as np
from registry import make
from sklearn.datasets import load_iris

import metricfast as mf
from metricfast import embeddings, losses, metrics

X, Y = (array[::2] for array in load_iris(return_X_y=True))
X, VALUES = np.ascontiguousarray(X), X @ [1.0, 0.5, -1, 0.3]
PAIRS = X[[[0, 1], [0, 60], [30, 31]]]
QUICK = {"max_epochs": 2, "n_components": 2, "n_frequencies": 2, "random_state": 0}
HALVES = [(np.arange(0, len(Y), 2), np.arange(1, len(Y), 2))]
# Everything that takes points.
OF_POINTS = {
    "transform": lambda A: mf.LFDA().fit(A, Y).transform(A),
    "classes": lambda A: mf.KNeighborsClassifier(3).fit(A, Y).predict_proba(A),
    "learned": lambda A: mf.KNeighborsClassifier(3, metric=mf.LFDA()).fit(A, Y).kneighbors(A)[0],
    "values": lambda A: mf.KNeighborsRegressor(3).fit(A, VALUES).predict(A),
    "nearest": lambda A: mf.NearestNeighbors().fit(A).kneighbors(A)[1],
    "graph": lambda A: mf.neighbors.KNeighborsTransformer().fit(A).transform(A).toarray(),
    "within": lambda A: mf.neighbors.RadiusNeighborsClassifier(9.0).fit(A, Y).predict_proba(A),
    "metrics": lambda A: mf.MultiMetricLMNN(max_iter=3).fit(A, Y).predict(A),
    "soft": lambda A: mf.NCAClassifier(**QUICK).fit(A, Y).predict_proba(A),
    "soft values": lambda A: mf.NCARegressor(**QUICK).fit(A, VALUES).predict(A),
    "kneighbors": lambda A: mf.kneighbors(A, A, 3)[0],
    "radius": lambda A: mf.neighbors.radius_neighbors(A, A, 1.0)[0],
    "distances": mf.pairwise_distances,
    "pairs": lambda A: mf.paired_distances(A, A),
    "per class": lambda A: mf.neighbors.kneighbors_per_class(A, A, Y, 2)[0],
    "database": lambda A: mf.Database(A).kneighbors(A, 3)[0],
    "loss": lambda A: losses.NCA()(A, Y)[0],
    "embedding": lambda A: embeddings.Linear(2).initialize(A, random_state=0)[0],
    "recall": lambda A: metrics.recall_at_k(A, Y),
    "report": lambda A: metrics.retrieval_report(A, Y).to_frame()["mean"],
    "folds": lambda A: (
        metrics.cross_validate_retrieval(mf.LFDA(), A, Y, folds=HALVES)["map_at_r"].values
    ),
    "comparison": lambda A: mf.compare(A, Y, learners=["LFDA"], cv=2, random_state=0).table[
        "score"
    ],
    "relevance": lambda A: mf.LFDA().fit(A, Y).feature_relevance(A),
    "triplets": lambda A: mf.Constraints(Y).generate_knntriplets(A, 2, 2),
    "preprocessor": lambda A: mf.LFDA(preprocessor=A).fit(np.arange(len(Y)), Y).components_,
    "tuples": lambda A: mf.ITML(preprocessor=A).fit([[0, 1], [0, 60]], [1, -1]).components_,
    "database of votes": lambda A: (
        mf.AsymmetricSimilarity(random_state=0)
        .fit(A, Y, X_database=A, y_database=Y)
        .transform(A, side="query")
    ),
    "fixed": lambda A: (
        mf.FixedDatabase(mf.AsymmetricSimilarity(random_state=0), A, Y).fit(A, Y).predict(A)
    ),
}


# Everything that takes labels of classes.
OF_LABELS = {
    **{
        kind.__name__: lambda y, kind=kind: make(kind).fit(X, y).pair_score(PAIRS)
        for kind in (
            *(mf.AsymmetricSimilarity, mf.LFDA, mf.NCA, mf.RCA_Supervised, mf.TripletLearner),
        )
    },
    "neighbours": lambda y: mf.KNeighborsClassifier(3).fit(X, y).predict_proba(X),
    "score": lambda y: mf.KNeighborsClassifier(3).fit(X, y).score(X, y),
    "soft": lambda y: mf.NCAClassifier(**QUICK).fit(X, y).predict_proba(X),
    "soft score": lambda y: mf.NCAClassifier(**QUICK).fit(X, y).score(X, y),
    "loss": lambda y: losses.NCA()(X, y)[0],
    "recall": lambda y: metrics.recall_at_k(X, y),
    "per class": lambda y: mf.neighbors.kneighbors_per_class(X, X, y, 2)[0],
    "validation": lambda y: mf.LFDA().fit(X, y, validate=True).validation_.costs[1],
}
