"""
Classes that were not trained on
================================

Retrieval is used for classes that nobody has labelled yet. `cross_validate_retrieval` divides the
classes, not the points, among the folds, and compares with the points as they came. On new classes
a metric gains less, and may lose.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

import metricfast
from metricfast.metrics import cross_validate_retrieval

X, y = load_digits(return_X_y=True)
X = X / 16
learners = {
    "RCA": metricfast.RCA_Supervised(random_state=0),
    "GMML": metricfast.GMML_Supervised(),
    "LFDA, 16": metricfast.LFDA(n_components=16),
    "proxies, 16": metricfast.ProxyNCALearner(16, max_epochs=8, random_state=0),
}
found = {
    name: cross_validate_retrieval(learner, X, y, folds=5, metrics="map_at_r")
    for name, learner in learners.items()
}
scores = {"as given": next(iter(found.values())).untrained["map_at_r"]}
scores |= {name: report["map_at_r"] for name, report in found.items()}
for name, score in scores.items():
    low, high = score.interval
    print(f"MAP@R of new classes, {name:<12} {score.mean:.3f}, interval {low:.3f} to {high:.3f}")

# Picture: MAP@R of new classes with 95 % intervals, one dot for each learner, and a dashed line at
# the points as given: some learners are above it and some below.
_, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for place, score in enumerate(scores.values()):
    axes.plot(score.interval, [place, place], color=f"C{place}")
    axes.plot(score.mean, place, "o", color=f"C{place}")
axes.axvline(scores["as given"].mean, color="gray", linestyle="--")
axes.set_yticks(range(len(scores)), scores)
axes.set(xlabel="MAP@R of new classes, mean of five folds")
plt.show()
