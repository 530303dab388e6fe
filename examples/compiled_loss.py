"""
Your own loss in C
==================

Compiled once, run by the library's threads.

A point gives each other point at squared distance D the weight 1 / (1 + D). The loss is minus the
logarithm of the share of its own class. In C it is a function of one row of squared distances. The
library computes these and the gradients of the points. The same loss in Python needs whole
matrices, and takes longer.
"""

import ctypes
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from metricfast import EmbeddingLearner, losses
from metricfast.embeddings import Linear
from metricfast.plotting import LossCurveDisplay

SOURCE = """
#include <math.h>
#include <stddef.h>

/* -log of the share of the own class in the sum of 1 / (1 + D). */
double row(const double *D, double *by_D, const double *labels, ptrdiff_t n, ptrdiff_t anchor,
           ptrdiff_t excluded, double label, void *data) {
    double all = 0, own = 0;
    for (ptrdiff_t j = 0; j < n; ++j)
        if (j != excluded) {
            const double kernel = 1 / (1 + D[j]);
            all += kernel;
            own += labels[j] == label ? kernel : 0;
        }
    if (own == 0)
        return 0;
    for (ptrdiff_t j = 0; j < n; ++j)
        if (j != excluded) {
            const double kernel = 1 / (1 + D[j]);
            by_D[j] = kernel * kernel * ((labels[j] == label ? 1 / own : 0) - 1 / all);
        }
    (void)anchor, (void)data;
    return log(all / own);
}
"""
X, y = load_digits(return_X_y=True)
X = X / 16


def in_python(Z, y):
    """The same, as a function of whole matrices."""
    D = ((Z[:, None] - Z) ** 2).sum(axis=2)
    kernel = 1 / (1 + D)
    np.fill_diagonal(kernel, 0)
    own = kernel * (y[:, None] == y)
    all_of, own_of = kernel.sum(axis=1), own.sum(axis=1)
    weights = kernel**2 * (own.astype(bool) / own_of[:, None] - 1 / all_of[:, None]) / len(Z)
    weights += weights.T
    gradient = 2 * (weights.sum(axis=1)[:, None] * Z - weights @ Z)
    return np.log(all_of / own_of).mean(), gradient


def compiled():
    """Compile the function to a library, which stays loaded."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "row.c"), Path(folder, "row.so")
        source.write_text(SOURCE)
        command = ["cc", "-O3", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library)).row


if shutil.which("cc") is None:
    print("This example needs a C compiler, by the name of cc.")
else:
    loss = losses.Compiled(compiled())
    Z = X[:, :16]
    for name, function in (("C", loss), ("Python", in_python)):
        start = time.perf_counter()
        value, gradient = function(Z, y)
        seconds = time.perf_counter() - start
        print(f"{name:<6} {value:.6f}  {np.abs(gradient).sum():.6f}  {seconds:.3f} s")
    learner = EmbeddingLearner(loss, Linear(9), max_epochs=10, judge=None, random_state=0).fit(
        X[::2], y[::2]
    )
    print(f"1-nearest neighbours right: {learner.score(X[1::2], y[1::2], X[::2], y[::2]):.3f}")
    # Picture: The loss of the batches of each of ten epochs, which falls and jumps.
    LossCurveDisplay.from_estimator(learner)
    plt.show()
