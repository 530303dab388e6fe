"""Matrices M that learners use as a start or as a prior."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from sklearn.datasets import make_spd_matrix

from metricfast._core.arguments import (
    as_matrix,
    check_named,
    check_no_overflow,
    check_random_state,
    is_symmetric,
)
from metricfast._core.types import Array, Floats, RandomState
from metricfast._core.warn import warn_user
from metricfast.exceptions import NonPSDError

_SINGULAR = (
    "Unable to get a true inverse of the covariance matrix since it is not definite. Try another "
    "`{name}`, or an algorithm that does not require the `{name}` to be strictly positive definite."
)


def is_identity(prior: str | Array) -> bool:
    """Return whether a prior is the name of the identity."""
    return isinstance(prior, str) and prior == "identity"


def initialize_metric(
    points: Array,
    prior: str | Array,
    random_state: int | RandomState | None = None,
    *,
    name: str = "prior",
    strictly_positive: bool = False,
) -> Floats:
    """Make a positive semidefinite matrix M.

    `points`: the distinct training points.
    `prior`: {"identity", "covariance", "random"} or ndarray; "covariance" is the pseudo-inverse of
        the covariance of the points. An array of shape (n_features, n_features) is copied.
    `name`: the name of the parameter, for errors.
    `strictly_positive`: refuse singular matrices.
    Raises ValueError if `prior` is unknown, of the wrong shape, or not symmetric; NonPSDError if it
    has a negative eigenvalue; LinAlgError if it must be strictly positive definite and is not.
    Warns UserWarning if the covariance is singular.
    """
    n_features = points.shape[1]
    known = ("identity", "covariance", "random")
    check_named(name, prior, known, "(n_features, n_features)")
    if isinstance(prior, np.ndarray):
        return _check_given(prior, n_features, name, strictly_positive)
    if prior == "identity":
        return np.eye(n_features)
    if prior == "random":
        return np.asarray(
            make_spd_matrix(n_features, random_state=check_random_state(random_state))
        )
    return _inverse_covariance(points, name, strictly_positive)


def _check_given(prior: Array, n_features: int, name: str, strictly_positive: bool) -> Floats:
    M: Floats = as_matrix(prior, name)
    if M.shape != (n_features, n_features):
        raise ValueError(
            f"The input dimensionality {M.shape} of the given mahalanobis matrix `{name}` must "
            f"match the dimensionality of the given inputs ({n_features})."
        )
    if not is_symmetric(M):
        raise ValueError(f"`{name}` is not symmetric.")
    M = (M + M.T) / 2  # decompositions read only one triangle
    eigenvalues: Array = np.linalg.eigvalsh(M)
    tol = _rounding(eigenvalues)
    if (eigenvalues < -tol).any():
        raise NonPSDError()
    if strictly_positive and (eigenvalues <= tol).any():
        raise LinAlgError(
            f"You should provide a strictly positive definite matrix as `{name}`. This one is not "
            f"definite. Try another {name}, or an algorithm that does not require the {name} to be "
            "strictly positive definite."
        )
    return M


def _inverse_covariance(points: Array, name: str, strictly_positive: bool) -> Floats:
    if len(points) < 2:
        raise ValueError(f"`{name}`='covariance' needs at least 2 different points.")
    if strictly_positive and len(points) <= points.shape[1]:
        raise LinAlgError(_SINGULAR.format(name=name))  # no need to compute eigenvalues
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = np.atleast_2d(np.cov(points, rowvar=False, dtype=np.float64))
    check_no_overflow(f"squares for {name}='covariance'", covariance)
    eigenvalues, eigenvectors = np.linalg.eigh(covariance)
    kept = eigenvalues > _rounding(eigenvalues)
    if not kept.all():
        if strictly_positive:
            raise LinAlgError(_SINGULAR.format(name=name))
        warn_user(
            "The covariance matrix is not invertible: using the pseudo-inverse instead. "
            "To make it invertible, remove linearly dependent and constant features, or reduce "
            "the dimension of the points, with PCA for example."
        )
    scaled = eigenvectors[:, kept] / np.sqrt(eigenvalues[kept])
    return np.asarray(scaled @ scaled.T)


def _rounding(eigenvalues: Array) -> float:
    """Return the rounding error of the eigenvalues of a matrix."""
    size = float(np.abs(eigenvalues).max())
    return size * len(eigenvalues) * float(np.finfo(np.float64).eps)
