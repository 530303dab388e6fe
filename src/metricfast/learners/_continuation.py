"""What `partial_fit` goes on with, and may not change."""

from __future__ import annotations

from typing import Any

from metricfast.embeddings import Embedding
from metricfast.learners._fingerprint import fingerprint
from metricfast.learners._objective import is_continuous, is_learnable

__all__ = ["check_continuation"]


def check_continuation(learner: Any, loss: Any, embedding: Embedding) -> None:
    """Refuse parameters that do not go with what has been learned.

    Parameters
    ----------
    learner : BaseEmbeddingLearner
        With `parameters_`.
    loss : loss
    embedding : Embedding
        Of its parameters.

    Raises
    ------
    ValueError
    """
    training = getattr(learner, "_training", None)
    moments = 2 if learner.solver == "adam" else 1
    table, numbers = hasattr(learner, "proxies_"), not hasattr(learner, "classes_")
    for name, has_changed in (
        ("solver", training is not None and len(training.moments) != moments),
        ("loss", (is_learnable(loss), is_continuous(loss)) != (table, numbers)),
        ("embedding", fingerprint(embedding) != fingerprint(learner.embedding_)),
    ):
        if has_changed:
            raise ValueError(
                f"partial_fit goes on with the {name} that it began with, which parameters no "
                "longer ask for: call fit, with warm_start=True to keep what was learned where "
                "that fits."
            )
