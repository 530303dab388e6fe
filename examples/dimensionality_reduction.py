"""Dimensionality reduction: digits in few dimensions, by PCA, LDA, NCA and LMNN.

PCA ignores the classes, LDA assumes one round cloud per class; NCA and LMNN look at
neighbours only.
"""

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

from metricfast import LMNN, NCA

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=0, stratify=y
)


def test_error(reducer):
    """3-NN test error among the reduced points."""
    Z_train, Z_test = reducer.fit(X_train, y_train).transform(X_train), reducer.transform(X_test)
    return 1 - KNeighborsClassifier(3).fit(Z_train, y_train).score(Z_test, y_test)


all_features = KNeighborsClassifier(3).fit(X_train, y_train)
print(f"3-NN test error, all 64 features: {1 - all_features.score(X_test, y_test):.3f}")
print(f"{'dimensions':<12}{'PCA':>8}{'LDA':>8}{'NCA':>8}{'LMNN':>8}")
for p in (2, 4, 8):
    reducers = (
        PCA(p),
        LinearDiscriminantAnalysis(n_components=p),
        NCA(n_components=p, tol=1e-3, random_state=0),
        LMNN(n_components=p, random_state=0),
    )
    print(f"{p:<12}" + "".join(f"{test_error(reducer):>8.3f}" for reducer in reducers))
