"""Aliases of the most frequent types."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array", "Floats", "Integers", "RandomState", "Self"]

Array = NDArray[Any]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
RandomState = np.random.RandomState

if TYPE_CHECKING:
    from typing_extensions import Self
else:
    Self = Any  # Python 3.10 has no `typing.Self`
