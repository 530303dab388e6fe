"""Calls of every public function with arguments of every kind, each judged.

``python -m tests.fuzz --calls 1000000`` from the root of the project; ``--help`` tells the rest.
"""

from __future__ import annotations

import sys
from pathlib import Path

# The references are in the folder above.
sys.path.insert(0, str(Path(__file__).parents[1]))
