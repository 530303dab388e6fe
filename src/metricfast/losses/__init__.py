"""Losses on embedded points: value and gradient, computed row by row in compiled code.

A loss is called on embedded queries and database points (by default the same points, each left
out of its own row by index) and returns its value and gradient::

    loss(Z, y, Z_database=None, y_database=None, *, sample_weight=None, exclude=None, n_jobs=None)
        -> (value, grad)                       # Z_database is None: both roles of a point added
        -> (value, (grad_queries, grad_database))

All n x m distances are visited; none of the n x m matrices is ever held.
"""

from __future__ import annotations

from metricfast.losses._gerrymander import Gerrymander
from metricfast.losses._ldml import LDML
from metricfast.losses._lmnn import LMNN
from metricfast.losses._mcml import MCML
from metricfast.losses._mlkr import MLKR
from metricfast.losses._nca import NCA

__all__ = ["LDML", "LMNN", "MCML", "MLKR", "NCA", "Gerrymander"]
