"""Losses that are C functions: from ctypes, and from the system's compiler if there is one."""

import ctypes
import math
import pickle
import shutil
import subprocess

import numpy as np
import pytest
from sklearn.base import clone
from trained import embedding_learner

from metricfast import losses

REAL, SIZE = ctypes.c_double, ctypes.c_ssize_t
REALS = ctypes.POINTER(REAL)
SIGNATURE = ctypes.CFUNCTYPE(
    REAL, REALS, REALS, REALS, SIZE, SIZE, SIZE, REAL, ctypes.POINTER(REAL)
)
CONTRASTIVE = """
#include <stddef.h>
double row(const double *d, double *by, const double *labels, ptrdiff_t n, ptrdiff_t anchor,
           ptrdiff_t excluded, double label, void *data) {
    const double margin = *(const double *)data;
    double sum = 0;
    for (ptrdiff_t j = 0; j < n; ++j) {
        if (j == excluded)
            continue;
        const int own = labels[j] == label;
        const double h = own ? d[j] : margin - d[j];
        if (h > 0) {
            sum += h;
            by[j] = own ? 1 : -1;
        }
    }
    return sum;
}
"""


@SIGNATURE
def contrastive(d, by, labels, n, anchor, excluded, label, data):
    total = 0.0
    for j in range(n):
        own = labels[j] == label
        h = d[j] if own else data[0] - d[j]
        if j != excluded and h > 0:
            total += h
            by[j] = 1.0 if own else -1.0
    return total


@SIGNATURE
def squares(s, by, targets, n, anchor, excluded, target, data):
    for j in range(n):
        if j != excluded:
            by[j] = 2 * (s[j] - target * targets[j])
    return sum((s[j] - target * targets[j]) ** 2 for j in range(n) if j != excluded)


@pytest.fixture(scope="module", params=["ctypes", "compiler"])
def function(request, tmp_path_factory):
    if request.param == "ctypes":
        return contrastive
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("loss")
    (folder / "row.c").write_text(CONTRASTIVE)
    subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "row.c", "-o", "row.so"], cwd=folder, check=True
    )
    return ctypes.CDLL(str(folder / "row.so")).row


def problem(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)), rng.integers(0, 4, n)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_it_is_the_loss_that_it_computes(function, dtype):
    (Z, y), (B, yb) = problem(), problem(25, 1)
    Z, B, weight = Z.astype(dtype), B.astype(dtype), np.arange(60.0) % 3
    loss = losses.Compiled(function, "euclidean", data=np.array([1.5]), reduction="sum")
    known = losses.Contrastive(neg_margin=1.5, reduction="sum")
    for arguments, how in (
        ((Z, y), {}),
        ((Z, y), {"sample_weight": weight}),
        ((Z, y, B, yb), {"exclude": np.arange(60) % 26 - 1}),
    ):
        value, grad = loss(*arguments, **how, n_jobs=2)
        expected, exact = known(*arguments, **how)
        assert value == pytest.approx(expected, rel=1e-5 if dtype == np.float32 else 1e-12)
        for a, b in zip(grad, exact, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    assert loss.counts_["anchors"] == 60
    assert loss.on(y)(Z)[0] == loss(Z, y)[0]


def test_numbers_as_labels():
    Z, _ = problem()
    y = np.linspace(-1, 1, 60)
    value, grad = losses.Compiled(squares, "inner_product", "continuous")(Z, y)
    residue = Z @ Z.T - np.outer(y, y)
    np.fill_diagonal(residue, 0)
    assert value == pytest.approx((residue**2).sum() / 60)
    np.testing.assert_allclose(grad, 4 * residue @ Z / 60, atol=1e-10)


def test_a_learner_trains_it():
    X, y = problem()
    loss = losses.Compiled(contrastive, "euclidean", data=np.array([1.0]))
    learner = embedding_learner(loss, max_epochs=3).fit(X, y)
    assert learner.loss_curve_[-1] < learner.loss_curve_[0]


def test_what_it_refuses():
    Z, y = problem()
    wrong = SIGNATURE(lambda *_: math.nan)
    with pytest.raises(ValueError, match="gave NaN for point"):
        losses.Compiled(wrong)(Z, y, n_jobs=2)
    for none in (None, 0, "row"):
        with pytest.raises(ValueError, match="function must be a compiled function"):
            losses.Compiled(none)(Z, y)
    with pytest.raises(ValueError, match="metric must be"):
        losses.Compiled(wrong, "cosine")(Z, y)
    with pytest.raises(ValueError, match="data must be an address"):
        losses.Compiled(wrong, data=[1.0])(Z, y)
    with pytest.raises(ValueError, match="labels must be"):
        losses.Compiled(wrong, labels="dense")(Z, y)
    loss = losses.Compiled(contrastive)
    assert clone(loss).function == loss.function
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(loss)
