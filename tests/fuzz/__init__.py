"""Fuzzing: calls of every public function with arguments of every kind, each with a verdict.

``python -m tests.fuzz --calls 1000000`` from the root of the project; ``--help`` tells the rest.
"""

import sys
from pathlib import Path

# The reference implementations are in the parent folder.
sys.path.insert(0, str(Path(__file__).parents[1]))
