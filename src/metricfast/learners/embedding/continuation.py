"""What an earlier fit has left, to go on with."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from metricfast.embeddings import Embedding
from metricfast.training.fingerprint import fingerprint
from metricfast.training.objective import is_continuous, is_learnable

__all__ = ["check_continuation", "earlier_fit"]


def check_continuation(learner: Any, loss: Any, embedding: Embedding) -> None:
    """Raise ValueError for parameters that do not go with what `partial_fit` goes on with."""
    course = getattr(learner, "_course", None)
    moments = 2 if learner.solver == "adam" else 1
    table, numbers = hasattr(learner, "proxies_"), not hasattr(learner, "classes_")
    for name, has_changed in (
        ("solver", course is not None and len(course.moments) != moments),
        ("loss", (is_learnable(loss), is_continuous(loss)) != (table, numbers)),
        ("embedding", fingerprint(embedding) != fingerprint(learner.embedding_)),
    ):
        if has_changed:
            raise ValueError(
                f"partial_fit goes on with the {name} that it began with, which parameters no "
                "longer ask for: call fit, with warm_start=True to keep what was learned where "
                "that fits."
            )


def earlier_fit(learner: Any) -> tuple[list[NDArray[Any]], NDArray[Any]] | None:
    """Return the parameters and the mean of an earlier fit to start from, if there was one."""
    if not hasattr(learner, "parameters_"):
        return None
    proxies = [learner.proxies_] if hasattr(learner, "proxies_") else []
    return [*learner.parameters_, *proxies], learner.mean_
