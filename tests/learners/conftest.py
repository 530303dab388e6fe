from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from metricfast import kneighbors


@pytest.fixture
def three_nn_error():
    """Cross-validated error of three nearest neighbours in the space of a learner, or as given."""

    def error(learner, X, y):
        errors = []
        for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            A, B = X[train], X[test]
            if learner is not None:
                model = clone(learner).fit(A, y[train])
                A, B = model.transform(A), model.transform(B)
            near = y[train][kneighbors(B, A, 3)[1]]
            votes = (near[:, :, None] == np.unique(y)).sum(axis=1)
            errors.append(np.unique(y)[votes.argmax(axis=1)] != y[test])
        return float(np.concatenate(errors).mean())

    return error
