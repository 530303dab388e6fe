"""
How many dimensions?
====================

Few components are fast and small, and can be drawn. Too few lose the differences of classes. The
picture shows the retrieval of held-out digits by the number of components, learned and by PCA.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from metricfast import LFDA, ProxyNCALearner
from metricfast.metrics import retrieval_report

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, test_size=0.5, random_state=0, stratify=y
)
dimensions = (1, 2, 4, 8, 16, 32)
makers = {
    "PCA": PCA,
    "LFDA": LFDA,
    "proxies": lambda p: ProxyNCALearner(p, max_epochs=30, judge=None, random_state=0),
}

scores = {name: [] for name in makers}
for p in dimensions:
    for name, make in makers.items():
        Z = make(p).fit(X_train, y_train).transform(X_test)
        scores[name].append(retrieval_report(Z, y_test, metrics="map_at_r")["map_at_r"])
whole = retrieval_report(X_test, y_test, metrics="map_at_r")["map_at_r"]
print(f"{'MAP@R':<10}" + "".join(f"{p:>8}" for p in dimensions))
for name, found in scores.items():
    print(f"{name:<10}" + "".join(f"{score.mean:>8.3f}" for score in found))
print(f"all 64 features as given: {whole.mean:.3f}, chance {whole.chance:.3f}")

# Picture: MAP@R by number of components with bands for the intervals: LFDA and proxies rise above
# the dashed line of the 64 features as given, PCA stays near it or below.
_, axes = plt.subplots(figsize=(6, 4))
for name, found in scores.items():
    axes.semilogx(dimensions, [score.mean for score in found], marker="o", label=name)
    low, high = zip(*(score.interval for score in found), strict=True)
    axes.fill_between(dimensions, low, high, alpha=0.2)
axes.axhline(whole.mean, color="gray", linestyle="--", label="64 features, as given")
axes.set(xlabel="components", ylabel="MAP@R", xticks=dimensions, xticklabels=dimensions)
axes.legend()
plt.show()
