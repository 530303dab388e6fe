"""
New classes in changing light: MAP@R .77 in place of .32
========================================================

A search often meets classes that nobody has labelled yet. Here digits are searched for under a
light that differs from picture to picture. `cross_validate_retrieval` divides the classes, not the
points, among five folds. Each fold is searched with a metric that is learned from the digits of the
other folds.

Light varies within every class. So a learner's knowledge of light also applies to new classes.
Under one light little else is shared by all classes, and learners gain nothing or lose.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

import metricfast
from metricfast.metrics import cross_validate_retrieval
from metricfast.selection import Judge

X, y = load_digits(return_X_y=True)
X = X / 16
rows, columns = np.mgrid[-1:1:8j, -1:1:8j].reshape(2, 64)
light = np.random.default_rng(0).normal(size=(len(X), 3)) @ [np.ones(64), rows, columns]

data = {"changing light": X + 0.5 * light, "one light": X}
judge = Judge(measure="retrieval", unit="classes")  # a learner, too, holds classes out
learners = {
    "RCA": metricfast.RCA_Supervised(judge=judge, random_state=0),
    "LFDA": metricfast.LFDA(judge=judge),
    "GMML": metricfast.GMML_Supervised(judge=judge),
    "proxies, 16": metricfast.ProxyNCALearner(16, max_epochs=8, judge=judge, random_state=0),
}

# Picture: MAP@R of new digits with 95 % intervals, with one panel per light, one dot per learner,
# and a dashed line at the Euclidean distance. Under changing light RCA and LFDA are far above the
# line. Under one light all are near it.
_, axes = plt.subplots(1, 2, figsize=(10, 3.5), sharey=True, layout="constrained")
for panel, (name, points) in zip(axes, data.items(), strict=True):
    scores = {}
    for learner_name, learner in learners.items():
        report = cross_validate_retrieval(learner, points, y, folds=5, metrics="map_at_r")
        scores.setdefault("Euclidean", report.untrained["map_at_r"])
        scores[learner_name] = report["map_at_r"]
    print(f"MAP@R of new digits, {name}")
    for place, (learner_name, score) in enumerate(scores.items()):
        low, high = score.interval
        print(f"  {learner_name:<11}  {score.mean:.3f}, interval {low:.3f} to {high:.3f}")
        panel.plot(score.interval, [place, place], color=f"C{place}")
        panel.plot(score.mean, place, "o", color=f"C{place}")
    panel.axvline(scores["Euclidean"].mean, color="gray", linestyle="--")
    panel.set_yticks(range(len(scores)), scores)
    panel.set(title=name, xlabel="MAP@R of new digits, mean of five folds")
plt.show()
