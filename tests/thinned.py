"""Tables of cases: each run tries some of them, and `-m exhaustive` all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], kept: Callable[[Any], object] | int = 1) -> list[Any]:
    """Return parameters; mark all as `exhaustive` except those in `kept`, or the first few."""
    marked = []
    for place, case in enumerate(cases):
        often = place < kept if isinstance(kept, int) else kept(case)
        values = case if isinstance(case, tuple) else (case,)
        marked.append(pytest.param(*values, marks=() if often else pytest.mark.exhaustive))
    return marked
