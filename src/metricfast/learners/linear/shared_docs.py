"""What the documentation of learners of a linear map has in common."""

from __future__ import annotations

from typing import TypeVar

__all__ = ["documented"]

_Class = TypeVar("_Class", bound=type)

_SHARED = {
    "init": """init : {"auto", "pca", "lda", "identity", "random"} or ndarray, default="auto"
        The map to start from. "auto" is "lda" if
        ``n_components <= min(n_features, n_classes - 1)``, else "pca" if
        ``n_components < min(n_features, n_samples)``, else "identity". An array has shape
        (n_components, n_features).""",
    "n_components": """n_components : int, optional
        Number of rows of the map; by default those of `init` if it is an array, else
        n_features.""",
    "tol": """tol : float, optional
        Tolerance of "lbfgs", as SciPy's `minimize` takes it; by default 1e-6 for float32
        points, else SciPy's own choice.""",
    "common": """verbose : bool or int, default=False
        Show progress on standard error.
    preprocessor : array-like or callable, optional
        Gives the points when `X` holds indicators of points.
    random_state : int, RandomState or None, default=None
        For "random" initialisation, mini-batches and points that are held out.""",
    "sgd": """batch_size : int, optional
        Points per mini-batch; by default a tenth of the points, in `partial_fit` of those of all
        calls so far, but at least 100 and at most 1000.
    learning_rate : float, default=0.01
        First step of "sgd", relative to the root mean square of the initial map; it falls to zero
        along half a cosine.
    max_epochs : int, default=50
        Number of passes of "sgd" over the points.""",
    "jobs": """n_jobs : int, optional
        Number of threads; results do not depend on it. By default all that the process may use.
    callbacks : iterable of callables, optional
        Each is called with a `metricfast.solvers.SolverState` after every iteration (with "sgd":
        every epoch). One that returns True ends the training.""",
    "training": """validation_fraction : float, default=0.1
        Share of the points that is held out.
    n_iter_no_change : int, default=10
        Of `early_stopping`.
    warm_start : bool, default=False
        Start from the map of an earlier `fit`, of as many components and features.
    checkpoint : path-like, optional
        File that the training is written to after every iteration or epoch, and goes on from where
        it is there already. It needs the package safetensors. A training by "lbfgs" goes on without
        its memory of gradients.
    reservoir : int, optional
        Number of points, drawn from those of all calls, that are kept for `partial_fit`: the points
        of a batch are compared with as many of them as well. By default none; of `LMNN`, which
        looks for neighbours, 4096 points of the calls of `partial_fit`, or what an eighth of
        `memory_limit` has room for.""",
    "folds": """early_stopping : bool or {"auto", "folds"}, default="auto"
        "folds" selects the number of iterations or epochs, and then trains on all points. Up to
        2,000 different points it uses five folds; beyond that, one fifth of the points validates
        the training on the rest. The cost is the share of other classes among the five nearest
        neighbours, for `MLKR` the squared error of their mean target. Among settings that a paired
        test by point cannot tell from the best, the shortest training is selected (for `LDML` and
        `NCMML` the longest). Where a start is better without training, it is the result, with
        ``n_iter_`` 1. With ``init="auto"`` two more starts
        compete on the same splits: the directions of `LFDA`, and features divided by their standard
        deviations. "auto" is "folds" with "lbfgs", where points are in memory and two classes have
        enough points; else False. True: hold points out, keep the map under which their
        3 nearest neighbours among the others are wrong most seldom (for numbers: have the least
        mean squared error), and stop after `n_iter_no_change` iterations or epochs that bring none
        better. False: train to the end, as metric-learn does.""",
    "init_scale": """"auto" multiplies a start that `init` names by the factor under which the
        objective of up to 500 points is lowest (for `NCA`: their labels are most likely, each by
        the others), and divides the features of "identity" by their standard deviations where that
        makes it lower still. None starts from the map that is named, as metric-learn does. An array
        is always taken as it is, but for "sgd".""",
    "attributes": """n_iter_ : int
        Number of iterations, or epochs, done; 1 where the first found nothing to change.
    loss_curve_ : list of float
        The objective after each iteration or epoch.
    validation_scores_ : list of float
        With early stopping, after each of them: the share of held-out points that were right (of
        numbers, the negative mean squared error).
    n_features_in_ : int
        Number of features seen in `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Their names, if `X` has any.
    preprocessor_ : callable or None
        The preprocessor in use.""",
    "components": """components_ : ndarray of shape (n_components, n_features)
        The learned map, in float32 for float32 points, else in float64.""",
    "units": """Data whose largest standard deviation of a feature is below 2^-10 or above 2^10 are
    trained on times a power of two that makes it about 1, which `components_` undo; "identity",
    "pca" and "random" are then maps of the rescaled data. An array as `init` is always a map of the
    data as given; one that spreads them by more than 2^20 or less than 2^-20 is rescaled likewise,
    with a warning.

    An interrupted `fit` (Ctrl-C) raises KeyboardInterrupt and leaves the best map so far in
    `components_`. Where the iterations run out before convergence, ConvergenceWarning says so.""",
}


def documented(cls: _Class) -> _Class:
    """Fill in what the documentation of a class says as ``%(name)s``."""
    if cls.__doc__ is not None:  # python -OO
        cls.__doc__ = cls.__doc__ % _SHARED
    return cls
