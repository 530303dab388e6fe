"""
Gerrymandering: k-NN errors fall from 10 % to 7 %
=================================================

Neighbourhood gerrymandering pulls h*, the nearest set of neighbours with a right vote. It pushes ĥ,
a near set with a wrong vote. Both are found exactly. The pictures show them for one query, before
and after training.
"""

import numpy as np
from matplotlib import pyplot as plt

from metricfast import NeighborhoodGerrymandering, inference, kneighbors
from metricfast.solvers import Adam

K = 5
rng = np.random.default_rng(3)
y = rng.integers(0, 2, 160)  # two stripes: only the first coordinate separates them
X = np.c_[0.9 * y + 0.28 * rng.normal(size=160), 2.0 * rng.normal(size=160)]

learner = NeighborhoodGerrymandering(
    K, init="identity", regularizer=None, random_state=0, solver=Adam(learning_rate=0.1)
).fit(X, y)
scale = np.sqrt(0.5 / np.mean(kneighbors(X, None, K, squared=True)[0].sum(axis=1)))
embedded = {"before training": scale * X, "after training": learner.transform(X)}
sets = {name: inference.both(Z, None, y, y, K) for name, Z in embedded.items()}
losses = {name: augmented.values - targeted.values for name, (targeted, augmented) in sets.items()}
for name, Z in embedded.items():
    wrong = np.mean((y[kneighbors(Z, None, K)[1]].mean(axis=1) > 0.5) != y)
    print(f"{name:<16} votes wrong {wrong:.3f}, mean loss {losses[name].mean():.3f}")
gain = losses["before training"] - losses["after training"]
query = int(np.argmax(np.where((y == 0) & (losses["before training"] > 1), gain, -np.inf)))

# Picture: A query among points of two classes. Before training, squares around h*, the nearest set
# that votes right, and diamonds around ĥ, a set that votes wrong, mark different points. After
# training the nearest neighbours vote right.
_, axes = plt.subplots(1, 2, figsize=(11, 6), layout="constrained")
for panel, (name, Z) in zip(axes, embedded.items(), strict=True):
    targeted, augmented = sets[name]
    panel.scatter(*Z.T, c=np.where(y, "#cc6677", "#4477aa"), s=22)
    for members, marker, size, color, what in (
        (kneighbors(Z, None, K)[1][query], "o", 70, "#222222", "nearest neighbours"),
        (targeted.indices[query], "s", 150, "#228833", "h*: nearest set that votes right"),
        (augmented.indices[query], "D", 250, "#aa7700", "ĥ: worst of what is near"),
    ):
        panel.scatter(
            *Z[members].T, s=size, marker=marker, facecolors="none", edgecolors=color, label=what
        )
    panel.scatter(*Z[query], s=180, marker="*", color="black", label="query, of the blue class")
    reach = np.abs(Z[np.r_[targeted.indices[query], augmented.indices[query]]] - Z[query]).max()
    panel.set_xlim(Z[query, 0] - 1.6 * reach, Z[query, 0] + 1.6 * reach)
    panel.set_ylim(Z[query, 1] - 1.6 * reach, Z[query, 1] + 1.6 * reach)
    panel.set(title=f"{name}: loss of the query {losses[name][query]:.2f}", aspect="equal")
axes[0].legend(loc="lower left", fontsize=8)
plt.show()
