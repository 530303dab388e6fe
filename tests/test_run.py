"""How the program for fresh machines decides."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

RUN = runpy.run_path(str(Path(__file__).parents[1] / "run.py"))


@pytest.mark.parametrize(("memory", "jobs"), [(64e9, 4), (4e9, 2), (2e9, 1), (0.5e9, 1)])
def test_compilers_fit_into_memory(monkeypatch, memory, jobs):
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    assert RUN["compilers"](memory) == jobs
    assert RUN["compilers"](float(RUN["free_memory"]())) >= 1
