"""Set scikit-learn's `working_memory` in bytes, so that small data need several blocks."""

from __future__ import annotations

from contextlib import AbstractContextManager

import sklearn


def working_memory(n_bytes: float) -> AbstractContextManager[None]:
    """Set it within a ``with`` block."""
    context: AbstractContextManager[None] = sklearn.config_context(working_memory=n_bytes / 2**20)
    return context
