"""
Which features matter: eight columns of noise get 2 %
=====================================================

The share of each feature in the learned distance, with its name. The program adds eight features of
pure noise to thirteen features of wines. A good metric gives them a small share.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from metricfast import LMNN, NCA
from metricfast.plotting import FeatureRelevanceDisplay

wine = load_wine()
noise = np.random.default_rng(0).normal(size=(len(wine.data), 8))
names = [*wine.feature_names, *(f"noise {i}" for i in range(1, 9))]
X_train, _, y_train, _ = train_test_split(
    np.c_[wine.data, noise], wine.target, test_size=0.3, random_state=0, stratify=wine.target
)
X_train = StandardScaler().fit_transform(X_train)

for learner in (LMNN(n_components=3), NCA(n_components=2, random_state=0)):
    relevance = learner.fit(X_train, y_train).feature_relevance(X_train)
    print(f"{type(learner).__name__}: share of the 8 features of noise {relevance[13:].sum():.3f}")
    for j in relevance.argsort()[::-1][:3]:
        print(f"    {relevance[j]:.3f} {names[j]}")

# %%
# Bars are shares of the mean squared distance. The columns on the right are the most stretched
# directions. Features of one colour add up, and red features are subtracted from blue ones.

# Picture: Bars of the share of each feature in the distance that NCA has learned. Features of wine
# have far longer bars than noise. Beside them, coloured cells show the first two eigenvectors.
FeatureRelevanceDisplay.from_estimator(learner, X_train, feature_names=names)
plt.show()
