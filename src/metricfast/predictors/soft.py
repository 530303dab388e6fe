"""Classification and regression by soft votes under learned maps."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import Tags

from metricfast._core.targets import (
    accuracy,
    check_sample_weight,
    check_several_classes,
    numeric_labels,
)
from metricfast._core.types import Array, Floats, Integers
from metricfast.learners.base.inputs import forget
from metricfast.losses import MLKR, NCA
from metricfast.predictors.soft_base import Hidden, SoftNeighbors
from metricfast.predictors.soft_training import Task
from metricfast.predictors.targets import Classes, check_given, with_class_weight
from metricfast.training.callbacks import reports_to_sklearn
from metricfast.training.samples import Samples


@dataclass(eq=False, repr=False)
class NCAClassifier(ClassifierMixin, SoftNeighbors):  # type: ignore[misc]
    """Classification by all training points, which vote the more the nearer a learned map has them.

    The probability of a class is the share of its points in the softmax of negative distances,
    ``p(y | x) = sum_j softmax_j(-||z - z_j||) [y_j = y]``. The map z is linear, or a linear map of
    periodic features of each number (:class:`metricfast.embeddings.Periodic`), and makes the
    training points likely, each predicted by the others.

    Parameters
    ----------
    n_components : int, default=64
        Dimension of the map.
    periodic : bool or "auto", default="auto"
        Whether to use periodic features of numbers. "auto" lets held-out points choose, and uses
        none for more than 1,000 numeric columns.
    n_frequencies : int, default=16
        Frequencies of each number, of its periodic features.
    n_embedding : int, default=8
        Features that are made of these.
    scale : float or "auto", default="auto"
        Spread of the frequencies at the start, in turns for each standard deviation of a number;
        "auto" lets held-out points choose among .03, .3 and 1.
    candidate_fraction : float, default=0.5
        Share of the other points that the points of a batch are compared with, in addition to each
        other; at most 4,096 points.
    n_estimators : int or "auto", default="auto"
        Number of maps that are learned, which count alike. Each starts elsewhere, and holds
        another part of the points out. "auto" learns a map for each of the judge's parts of at most
        4,096 points (5 maps without a judge), and 1 map of more points.
    categorical_features : "from_dtype", array-like of bool, int or str, or None, \
            default="from_dtype"
        Columns of categories: columns of a frame that have such a type, or a mask, or
        indices, or names. Others hold numbers. As in scikit-learn's
        `HistGradientBoostingClassifier`.
    solver : {"adamw", "adam"}, default="adamw"
        Whether weight decay is apart from the gradient or added to it.
    learning_rate : float, default=0.01
        For batches of at most 256 points; it grows with the square root of larger ones. With more
        than 4,096 training points, it falls to zero along half a cosine.
    weight_decay : float, default=0.0002
    batch_size : int or "auto", default="auto"
        Points of a batch. "auto" takes an eighth of the points, from 256 to 1,024.
    max_epochs : int, default=100
        Largest number of passes over the points. With more than 4,096 training points, at most 40.
    judge : "auto", None or Judge, default="auto"
        Chooses the embedding, its inputs and the number of epochs by held-out points, see
        :class:`~metricfast.selection.Judge`. "auto" is ``Judge(n_splits=5, errors=0)``. Its
        measure is the log loss of predictions. Training stops after 10 epochs without a lower cost.
        With None, training uses all points, for all epochs, and what is "auto" is a linear map.
    time_limit : float, optional
        Seconds of `fit` after which training ends, and the best parameters so far are taken. Each
        map and each candidate is trained for one epoch at least. Results then depend on the speed
        of the machine.
    class_weight : dict, list of dict, "balanced" or None, default=None
        Weights of classes, as in scikit-learn; they multiply weights of points.
    random_state : int, RandomState or None, default=None
        For the start and the batches.
    n_jobs : int, optional
        Threads; None for the default count, -1 for all CPUs. Results do not depend on it.
    verbose : bool or int, default=False
        Show progress on standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,), or list of them
        A list where y has several outputs.
    embedding_ : Linear, Periodic or MLP
        What was chosen; `metricfast.embeddings` has its meaning.
    parameters_ : list of list of ndarray
        Its parameters, of each map.
    judgement_ : Judgement
        The embeddings that were tried, and their costs on the first part; a linear map is in the
        place of the given distance.
    relevance_ : ndarray of shape (n_features,)
        The share of each column of X in the squared distances of the map.
    validation_costs_ : list of list of float
        Of each map, the cost of held-out points after each epoch; without a judge the loss of the
        batches.
    oof_prediction_ : ndarray of shape (n_samples, n_classes), or list of them
        Out-of-fold probabilities. The map and the points that predict a point were trained
        without it. Only if each point is held out once, as by default. NaN for points of weight 0.
    n_samples_fit_, n_features_in_, feature_names_in_

    See Also
    --------
    metricfast.NCA : The learner of a linear map alone.
    metricfast.KNeighborsClassifier : The vote of k neighbours, under any learner.

    Notes
    -----
    Numbers are brought to mean 0 and variance 1, categories are coded one-hot. A missing number is
    the mean, and for each column in which numbers were missing there is another that says so; a
    missing category is one of its own.

    Held-out points that choose the embedding also choose its inputs: these numbers, or their normal
    scores, which are the quantiles of the normal distribution at their ranks. Each embedding is
    trained with both for 5 epochs. The better half of the linear maps, and of the periodic ones, is
    trained for 10 epochs, and so on. The best one of each kind is trained to its end, and the lower
    cost wins. The scores of new numbers are interpolated; a missing number has the mean score.

    With more than 4,096 training points, the embedding is chosen with so many of them, and the time
    of `fit` grows in proportion to the points. Held-out points choose how sharp the softmax is;
    for classes, if there are at least 500 of them.

    The map that is kept was trained without the held-out points, and is not trained again. They
    vote all the same: all points of `fit` are the database.

    ``sample_weight`` multiplies a point in predictions and in the loss. Weights are relative: a
    multiple of all weights gives the same model.

    A class that no point near a query has keeps its share of one vote among all points, so its
    probability is above 0. A class without a point of weight above 0 is in `classes_`, and has
    probability 0, as in scikit-learn's trees.

    References
    ----------
    J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood components analysis",
    NeurIPS 2004.

    H.-J. Ye, H.-H. Yin, D.-C. Zhan, W.-L. Chao, "Revisiting nearest neighbor for tabular data: a
    deep tabular baseline two decades later", ICLR 2025.

    K. Jamieson, A. Talwalkar, "Non-stochastic best arm identification and hyperparameter
    optimization", AISTATS 2016: the halving by which "auto" chooses.

    Examples
    --------
    >>> from metricfast import NCAClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NCAClassifier(periodic=False, max_epochs=30, random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.9
    True
    >>> distances, indices = model.kneighbors(X[:1], n_neighbors=3)
    >>> y[::2][indices]
    array([[0, 0, 0]])
    """

    _: KW_ONLY
    class_weight: Any = None

    @reports_to_sklearn
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NCAClassifier:
        """Learn the maps, and keep the points to vote.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            Numbers and categories; either may be missing (NaN, None).
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Classes; with several outputs, also labels that are there (1) or not (0).
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            If an argument or parameter has a value that cannot be used. A fit that fails, or is
            interrupted, leaves the estimator unfitted.

        Warns
        -----
        ConvergenceWarning
            If training diverged: the best parameters are kept. If no training point has a gradient,
            as with fewer than 2 points in each class: the map stays as it was drawn.
        """
        forget(self)
        X, y = check_given(self, X, y)
        self._labels = Classes.of(y)
        weight = check_sample_weight(sample_weight, len(self._labels.codes))
        weight = with_class_weight(weight, self.class_weight, y)
        codes = self._labels.codes
        known = codes if weight is None else codes[weight > 0]
        kind = "" if weight is None else " of a weight above 0 (sample_weight, class_weight)"
        check_several_classes(1 + bool((known != known[0]).any()), kind)
        self.outputs_2d_ = self._labels.several
        self.classes_ = self._labels.known if self.outputs_2d_ else self._labels.known[0]
        means = self._learn(X, weight, self._task)
        if means is not None:
            self.oof_prediction_ = self._predicted(means)
        return self

    def _task(self, E: Array, rows: Integers, weight: Floats | None) -> Task:
        """Return the classes to predict."""
        codes = self._labels.codes[rows]
        sizes = [len(known) for known in self._labels.known]
        w = np.ones(len(E)) if weight is None else weight
        votes = np.concatenate(
            [
                column[:, None] == np.arange(size)
                for column, size in zip(codes.T, sizes, strict=True)
            ],
            axis=1,
        )
        # The share of each class in one point; 0 for a class without a point.
        share, least = np.asarray(w @ votes), np.finfo(np.float64).tiny
        self._prior = np.where(share > 0, np.maximum(share / w.sum() / len(E), least), 0)
        losses = [
            (NCA("log", "mean", squared=False), column)
            for column, size in zip(codes.T, sizes, strict=True)
            if size > 1
        ]

        def costs(means: Floats, held_out: Integers) -> Floats:
            shares = self._of_outputs(means)
            places = np.arange(len(held_out))
            logs = [
                -np.log(share[places, column])
                for share, column in zip(shares, codes[held_out].T, strict=True)
            ]
            total: Floats = np.sum(logs, axis=0)
            return total

        samples, values = Samples(E, weight=weight), votes.astype(E.dtype)
        # From 500 held-out points on, they choose the sharpness of votes.
        return Task(samples, votes, values, losses, costs, codes, "log_loss", 500)

    def _of_outputs(self, means: Floats) -> list[Floats]:
        """Split the votes into the probabilities of the classes of each output."""
        smooth = (means + self._prior) / (1 + 1 / len(self._rows))
        ends = np.cumsum([len(known) for known in self._labels.known])
        return np.split(smooth, ends[:-1], axis=1)

    def predict_proba(self, X: Any) -> Floats | list[Floats]:
        """Return the probability of each class.

        Parameters
        ----------
        X : array-like or frame of shape (n_queries, n_features), or None
            None stands for the points of `fit` of weight above 0, in order; none predicts itself.

        Returns
        -------
        ndarray of shape (n_queries, n_classes), or list of them where y has several outputs
        """
        return self._predicted(self._means(X))

    def predict(self, X: Any) -> Array:
        """Return the most probable class; the first in a tie.

        Parameters
        ----------
        X : array-like or frame of shape (n_queries, n_features), or None
            As for :meth:`predict_proba`.

        Returns
        -------
        ndarray of shape (n_queries,) or (n_queries, n_outputs)
        """
        shares: Any = self.predict_proba(X)
        columns = [each.argmax(axis=1) for each in (shares if self.outputs_2d_ else (shares,))]
        return self._labels.labels(np.stack(columns, axis=1))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of queries whose class is predicted, for labels of every type.

        Parameters
        ----------
        X : array-like or frame of shape (n_queries, n_features), or None
            As for :meth:`predict`.
        y : array-like of shape (n_queries,)
            Classes. Several outputs count as right together, and must be labels that are there (1)
            or not (0).
        sample_weight : array-like of shape (n_queries,), optional

        Returns
        -------
        float
        """
        if self.outputs_2d_:
            return float(super().score(X, y, sample_weight))
        return accuracy(y, self.predict(X), sample_weight)

    def _predicted(self, means: Floats) -> Floats | list[Floats]:
        """Return the probabilities of the classes, in a list if there are several outputs."""
        shares = self._of_outputs(means)
        return shares if self.outputs_2d_ else shares[0]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


@dataclass(eq=False, repr=False)
class NCARegressor(RegressorMixin, SoftNeighbors):  # type: ignore[misc]
    """Regression by the mean of all training points, weighted by distances under a learned map.

    The prediction is ``sum_j softmax_j(-||z - z_j||) y_j``. The map z is linear, or a linear map of
    periodic features of each number (:class:`metricfast.embeddings.Periodic`), or a perceptron
    (:class:`metricfast.embeddings.MLP`). Under it, training points are predicted well by the
    others.

    Parameters
    ----------
    n_components, periodic, n_frequencies, n_embedding, scale, candidate_fraction, n_estimators, \
            categorical_features, solver, learning_rate, weight_decay, batch_size, max_epochs, \
            judge, time_limit, random_state, n_jobs, verbose
        As in :class:`NCAClassifier`, with the squared error in place of the log loss. Each output
        counts in proportion to its variance.
    hidden : int, sequence of int, "auto" or None, default="auto"
        Widths of the hidden layers of a perceptron of all columns, with "tanh". With numbers given,
        it is the map, and `periodic` and `scale` do not matter. None tries no perceptron. "auto"
        tries layers of 256 and 256 where an embedding is chosen among at least 3,000 points: for
        30 epochs. If it predicts held-out points better by more than half a standard error, it is
        trained anew; `fit` then takes two to three times as long.

    Attributes
    ----------
    embedding_, parameters_, judgement_, relevance_, n_samples_fit_, n_features_in_, \
            feature_names_in_
        As in :class:`NCAClassifier`.
    validation_costs_ : list of list of float
        As in :class:`NCAClassifier`, of squared errors of outputs of variance 1.
    oof_prediction_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Out-of-fold predictions, as in :class:`NCAClassifier`.

    See Also
    --------
    metricfast.MLKR : The learner of a linear map alone.
    metricfast.KNeighborsRegressor : Means of so many neighbours, under any learner.

    Notes
    -----
    As in :class:`NCAClassifier`, and its second reference. A mean lies within the values of `fit`.

    A perceptron is trained on standardised numbers, in batches of 256 points and at most 1,024
    candidates, for up to `max_epochs`. The learning rate falls to zero along half a cosine. With
    "adamw", the weight decay is 1,000 times `weight_decay`.

    References
    ----------
    K. Q. Weinberger, G. Tesauro, "Metric learning for kernel regression", AISTATS 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from metricfast import NCARegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = NCARegressor(periodic=False, random_state=0).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.5
    True
    """

    _: KW_ONLY
    hidden: Hidden = "auto"

    @reports_to_sklearn
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NCARegressor:
        """Learn the maps, and keep the points to predict by.

        Parameters
        ----------
        X : array-like or frame of shape (n_samples, n_features)
            As in :meth:`NCAClassifier.fit`, whose errors and warnings there are here too.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers, not all the same.
        sample_weight : array-like of shape (n_samples,), optional

        Returns
        -------
        self
        """
        forget(self)
        X, y = check_given(self, X, y)
        self._numbers = numeric_labels(y).copy()
        weight = check_sample_weight(sample_weight, len(self._numbers))
        means = self._learn(X, weight, self._task)
        if means is not None:
            self.oof_prediction_ = self._predicted(means)
        return self

    def _task(self, E: Array, rows: Integers, weight: Floats | None) -> Task:
        """Return the numbers to predict."""
        numbers = self._numbers[rows].reshape(len(rows), -1)
        self._unit = np.maximum(np.abs(numbers).max(axis=0), np.finfo(np.float64).tiny)
        unit = numbers / self._unit
        standard = unit - np.average(unit, axis=0, weights=weight)
        spread = np.sqrt(np.average(standard**2, axis=0, weights=weight))
        if not (spread > 0).any():
            raise ValueError(f"y must not be constant: all of its values are {numbers[0]}.")
        standard /= np.where(spread > 0, spread, 1)
        losses = [(MLKR("mean", squared=False), standard)]

        def costs(means: Floats, held_out: Integers) -> Floats:
            errors: Floats = ((means - standard[held_out]) ** 2).sum(axis=1)
            return errors

        samples, values = Samples(E, weight=weight), standard.astype(E.dtype)
        no_classes = np.zeros((len(E), 1), np.int64)
        return Task(samples, unit, values, losses, costs, no_classes, "squared_error")

    def predict(self, X: Any) -> Floats:
        """Return the mean of the values of `fit`, weighed by the softmax of distances.

        Parameters
        ----------
        X : array-like or frame of shape (n_queries, n_features), or None
            None stands for the points of `fit` of weight above 0, in order; none predicts itself.

        Returns
        -------
        ndarray of shape (n_queries,) or (n_queries, n_outputs)
        """
        return self._predicted(self._means(X))

    def _predicted(self, means: Floats) -> Floats:
        """Return the predictions in the units and shape of y."""
        found: Floats = (means * self._unit).reshape(len(means), *self._numbers.shape[1:])
        return found
