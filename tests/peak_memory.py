"""How much memory a call takes beside what was there, in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import metricfast as mf

# What threads, batches and modules take that are imported late.
BESIDE = 24_000_000
# Memory that is freed goes back to the system.
_BACK = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def measured(program: str, *given: object) -> list[list[str]]:
    """Run a Python file in a process of its own: what it printed, lines of values and commas."""
    found = subprocess.run(
        [sys.executable, program, *map(str, given)], check=False, capture_output=True, text=True,
        env=os.environ | _BACK,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
    return [line.split(",") for line in found.stdout.splitlines()]


def needed_and_peak(call: Callable[[], object], limit: int = 100_000) -> tuple[int, int]:
    """Return a limit that is enough, of those that errors ask for, and what the calls took."""
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    for _ in range(8):
        try:
            with mf.config_context(memory_limit=limit):
                call()
        except MemoryError as error:
            limit = int(re.search(r"memory_limit=(\d+)", str(error))[1])
        else:
            return limit, _status("VmHWM") - before
    raise AssertionError("errors ask for ever more")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024
