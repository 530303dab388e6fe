"""The benchmark suite: the library and its peers, side by side on the same data."""

from __future__ import annotations

__all__: list[str] = []
