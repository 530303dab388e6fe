"""The benchmark suite: compares the library with its peers on the same data."""

from __future__ import annotations

__all__: list[str] = []
