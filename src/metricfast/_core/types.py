"""Aliases of the most frequent types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Floats", "Integers", "RandomState"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
RandomState = np.random.RandomState
