"""HTML table of learned quantities, which notebooks show below scikit-learn's diagram."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

import numpy as np

from metricfast.learners.base.relevance import feature_names


def learned_table(estimator: Any) -> str:
    """Return the table, or nothing before `fit`; ``predictor._learned()`` yields its rows."""
    if not estimator.__sklearn_is_fitted__():
        return ""
    learned = estimator._learned() if hasattr(estimator, "_learned") else learned_rows(estimator)
    rows = "".join(
        f"<tr><th style='text-align: left'>{html.escape(name)}</th>"
        f"<td style='text-align: left'>{html.escape(value)}</td></tr>"
        for name, value in learned
    )
    return rows and f"<table class='metricfast-learned'><caption>Learned</caption>{rows}</table>"


def with_table(bundle: dict[str, str], estimator: Any) -> dict[str, str]:
    """Add the table to the result of scikit-learn's `_repr_mimebundle_`."""
    if "text/html" in bundle:
        bundle["text/html"] += learned_table(estimator)
    return bundle


def learned_rows(learner: Any) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each row for a fitted learner."""
    inner = learner
    while hasattr(inner, "learner_"):
        inner = inner.learner_
    if hasattr(learner, "judgement_"):
        yield "chosen", learner.judgement_.reason
    n_components = getattr(learner, "_n_features_out", None)
    if hasattr(learner, "n_features_in_"):
        to = "" if n_components is None else f" to {n_components} components"
        yield "map", f"{learner.n_features_in_} features{to}"
    if hasattr(learner, "feature_relevance") and hasattr(learner, "_map"):
        shares, names = learner.feature_relevance(), feature_names(learner)
        top = [j for j in np.argsort(-shares, kind="stable")[:5] if shares[j] > 0]
        yield (
            "diagonal of M, for features as given",
            ", ".join(f"{names[j]} {shares[j]:.1%}" for j in top),
        )
    for name, attribute in (("objective", "objective_"), ("iterations", "n_iter_")):
        if hasattr(inner, attribute):
            yield name, f"{getattr(inner, attribute):.6g}"
    if not hasattr(inner, "objective_") and getattr(inner, "loss_curve_", None):
        yield "loss, last iteration", f"{inner.loss_curve_[-1]:.6g}"
    if hasattr(learner, "threshold_"):
        yield "similar pairs", f"of a distance of at most {learner.threshold_:.6g}"
    if hasattr(learner, "validation_"):
        given, learned = learner.validation_.costs
        yield (
            f"{learner.validation_.measure}, held out",
            f"{learned:.4g} (given distance: {given:.4g})",
        )
