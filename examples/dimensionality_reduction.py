"""
Dimensionality reduction
========================

Digits in few dimensions, by PCA, LDA, NCA and LMNN. PCA ignores the classes. LDA assumes one round
cloud per class. NCA and LMNN use neighbours only.
"""

from matplotlib import pyplot as plt
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
REDUCERS = {
    "PCA": PCA,
    "LDA": LinearDiscriminantAnalysis,
    "NCA": lambda n_components: NCA(n_components=n_components, tol=1e-3, random_state=0),
    "LMNN": lambda n_components: LMNN(n_components=n_components, random_state=0),
}


def test_error(reducer):
    """3-NN test error among the reduced points."""
    Z_train, Z_test = reducer.fit(X_train, y_train).transform(X_train), reducer.transform(X_test)
    return 1 - KNeighborsClassifier(3).fit(Z_train, y_train).score(Z_test, y_test)


all_features = 1 - KNeighborsClassifier(3).fit(X_train, y_train).score(X_test, y_test)
print(f"3-NN test error, all 64 features: {all_features:.3f}")
dimensions = (1, 2, 4, 8)
errors = {
    name: [test_error(make(n_components=p)) for p in dimensions] for name, make in REDUCERS.items()
}
print(f"{'dimensions':<12}" + "".join(f"{p:>8}" for p in dimensions))
for name, found in errors.items():
    print(f"{name:<12}" + "".join(f"{error:>8.3f}" for error in found))

# %%
# A few learned dimensions replace many original ones:

# Picture: Test error by number of dimensions, a falling line for each of PCA, LDA, NCA and LMNN,
# and a dashed level line for all 64 features.
_, axes = plt.subplots(figsize=(6, 4))
for name, found in errors.items():
    axes.plot(dimensions, found, marker="o", label=name)
axes.axhline(all_features, color="gray", linestyle="--", label="all 64 features")
axes.set(xlabel="dimensions", ylabel="3-NN test error", xticks=dimensions)
axes.legend()
plt.show()
