"""Metric learners, one per file. Every name loads its module at first use."""

from __future__ import annotations

from typing import Any

from metricfast._exports import LEARNERS, load_public

__all__ = sorted(LEARNERS)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in LEARNERS:
        raise AttributeError(f"module 'metricfast.learners' has no attribute {name!r}")
    globals()[name] = value = load_public(LEARNERS[name], name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
