"""Paired tests between learners, and the expected score of the best of several."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from metricfast._core.types import Floats

_DRAWS = 200


def paired_p_value(values: Floats, baseline: Floats, test_share: float | None = None) -> float:
    """Return the p-value of the mean paired difference.

    Values of 0 and 1 are compared by McNemar's exact test, other values of points by Student's
    t-test. Values of folds, which share training points, need a t-test with a larger variance:
    `test_share` is the ratio of the sizes of test set and training set (Nadeau and Bengio.
    Inference for the generalization error. Machine Learning 52, 2003).
    """
    difference = values - baseline
    n = len(difference)
    if not difference.any():
        return 1.0
    if test_share is None and np.isin([values, baseline], (0, 1)).all():
        gained, changed = int((difference > 0).sum()), int((difference != 0).sum())
        return float(stats.binomtest(gained, changed).pvalue)
    deviation = difference.std(ddof=1) * np.sqrt(1 / n + (test_share or 0)) if n > 1 else np.inf
    if deviation == 0:
        return 0.0
    return float(2 * stats.t.sf(abs(difference.mean()) / deviation, max(n - 1, 1)))


def adjusted(p_values: Sequence[float]) -> Floats:
    """Return p-values adjusted for multiple comparisons (Holm)."""
    p = np.asarray(p_values, np.float64)
    order = np.argsort(p, kind="stable")
    found = np.empty(len(p))
    found[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return found


def expected_of_the_best(values: Floats, seed: int) -> float:
    """Return the expected score of the best learner, on points that were not used to choose it.

    `values`: scores of shape (n, n_learners), by held-out point or by fold.
    The best learner on each bootstrap sample is scored on the points left out of the sample
    (Tsamardinos, Greasidou, Borboudakis. Bootstrapping the out-of-sample predictions for efficient
    and accurate cross-validation. Machine Learning 107, 2018).
    """
    rng, n = np.random.default_rng(seed), len(values)
    scores = values.mean(axis=0)
    best = int(np.argmax(scores))
    lost = []
    for _ in range(_DRAWS):
        drawn = np.bincount(rng.integers(n, size=n), minlength=n)
        chosen, left_out = int(np.argmax(drawn @ values)), drawn == 0
        if left_out.any():
            # The difference from the best on the same points varies less than the mean itself.
            lost.append(float((values[left_out, best] - values[left_out, chosen]).mean()))
    return float(scores[best] - max(0, np.mean(lost))) if lost else float("nan")
