"""Measures of predictions of tables, and what they sum up to over tables."""

from __future__ import annotations

__all__ = [
    "auc",
    "beyond_noise",
    "calibration_error",
    "geometric_mean",
    "log_loss",
    "measures",
    "point_errors",
]

from collections.abc import Iterable

import numpy as np
from sklearn.metrics import roc_auc_score

LEAST = 1e-15


def log_loss(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Return the mean of -log p of the class y, an integer; p is at least 1e-15."""
    return float(-np.log(np.maximum(probabilities[np.arange(len(y)), y], LEAST)).mean())


def auc(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Return the area under the ROC curve of a class against all others, mean over classes."""
    found = [
        roc_auc_score(y == c, probabilities[:, c])
        for c in range(probabilities.shape[1])
        if 0 < (y == c).sum() < len(y)
    ]
    return float(np.mean(found)) if found else float("nan")


def calibration_error(probabilities: np.ndarray, y: np.ndarray, bins: int = 10) -> float:
    """Return the expected calibration error of the predicted class, with bins of equal width.

    ``sum_b n_b / n |accuracy_b - confidence_b|`` over bins b of the largest probability (C. Guo, G.
    Pleiss, Y. Sun, K. Weinberger, "On calibration of modern neural networks", ICML 2017).
    """
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == y
    places = np.minimum((confidence * bins).astype(int), bins - 1)
    return float(np.abs(np.bincount(places, right - confidence, minlength=bins)).sum() / len(y))


def measures(predicted: np.ndarray, y: np.ndarray, of_classes: bool) -> dict[str, float]:
    """Return the measures of probabilities of classes, or of predicted numbers."""
    if not of_classes:
        return {"error": float(np.sqrt(np.mean((predicted - y) ** 2))), "points": len(y)}
    return {
        "error": float(np.mean(predicted.argmax(axis=1) != y)),
        "log loss": log_loss(predicted, y),
        "AUC": auc(predicted, y),
        "calibration error": calibration_error(predicted, y),
        "points": len(y),
    }


def geometric_mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean; NaN of nothing."""
    logs = np.log(list(ratios))
    return float(np.exp(logs.mean())) if len(logs) else float("nan")


def point_errors(predicted: np.ndarray, y: np.ndarray, of_classes: bool) -> np.ndarray:
    """Return 1 or 0 for each point, wrong or right, or squared errors of numbers."""
    if of_classes:
        return (predicted.argmax(axis=1) != y).astype(np.float64)
    return (predicted - y) ** 2


def beyond_noise(first: list[np.ndarray], second: list[np.ndarray]) -> int:
    """Return 1 if first is larger than second by over 2 standard errors of differences, -1, or 0.

    The lists have the errors of the points of each split, of both models in the same order. The
    standard error is that of one split, the root of the mean over splits of variances: splits share
    points, so more of them do not make it smaller.
    """
    differences = [np.subtract(*pair) for pair in zip(first, second, strict=True)]
    mean = float(np.mean([each.mean() for each in differences]))
    noise = 2 * np.sqrt(np.mean([each.var() / len(each) for each in differences]))
    return int(np.sign(mean)) if abs(mean) > noise else 0
