"""
Pairs, triplets and quadruplets
===============================

There are no classes. A person compares points instead: are these two alike, which of two is nearer,
which of two pairs is closer? More such statements help more. Errors are means of three draws.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from metricfast import ITML, LSML, SCML, Constraints

X, y = load_wine(return_X_y=True)
X = np.c_[X, np.random.default_rng(0).normal(size=(len(X), 12))]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0, stratify=y)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)


def statements(n, seed):
    """Draw n statements of each kind from the training points."""
    constraints = Constraints(y_train)
    a, b, c, d = constraints.positive_negative_pairs(n, random_state=seed)
    pairs = np.r_[np.c_[a, b], np.c_[c, d]]
    similar = np.repeat([1, -1], [len(a), len(c)])
    triplets = constraints.generate_knntriplets(X_train, k_genuine=3, k_impostor=5)
    triplets = np.random.default_rng(seed).permutation(triplets)[:n]
    size = min(len(a), len(c))
    return {
        "pairs, ITML": (ITML(gamma=0.1, max_iter=2000), pairs, similar),
        "triplets, SCML": (
            SCML(n_basis=60, max_iter=4000, judge=None, random_state=seed),
            triplets,
        ),
        "quadruplets, LSML": (LSML(), np.c_[a[:size], b[:size], c[:size], d[:size]]),
    }


def test_error(Z_train, Z_test):
    """3-NN test error."""
    return 1 - KNeighborsClassifier(3).fit(Z_train, y_train).score(Z_test, y_test)


counts, errors = (30, 100, 300, 1000), {}
for n in counts:
    found = {}
    for seed in range(3):
        for name, (learner, *given) in statements(n, seed).items():
            learner.set_params(preprocessor=X_train).fit(*given)
            error = test_error(learner.transform(X_train), learner.transform(X_test))
            found.setdefault(name, []).append(error)
    for name, of_seeds in found.items():
        errors.setdefault(name, []).append(np.mean(of_seeds))
print(f"{'3-NN test error':<20}" + "".join(f"{n:>8}" for n in counts))
for name, found in errors.items():
    print(f"{name:<20}" + "".join(f"{error:>8.3f}" for error in found))

# Picture: 3-NN test error by number of statements, with one line each for pairs, triplets and
# quadruplets,
# and a dashed line for the Euclidean distance.
_, axes = plt.subplots(figsize=(6, 4))
for name, found in errors.items():
    axes.semilogx(counts, found, marker="o", label=name)
axes.axhline(test_error(X_train, X_test), color="gray", linestyle="--", label="Euclidean")
axes.set(xlabel="statements", ylabel="3-NN test error", xticks=counts, xticklabels=counts)
axes.legend()
plt.show()
