"""Every other instruction set level against the oracles, each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import metricfast

BUILT = metricfast.build_info()
TESTS = ["test_distance.py", "test_neighbors.py", "test_losses.py", "test_softmax_losses.py"]


@pytest.mark.parametrize("isa", [isa for isa in BUILT["available_isas"] if isa != BUILT["isa"]])
def test_level(isa: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    result = subprocess.run(
        command,
        cwd=Path(__file__).parent,
        env=os.environ | {"METRICFAST_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:]
    assert " passed" in result.stdout
