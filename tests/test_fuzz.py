"""The fuzzer detects faults, and a short run finds none."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("resource", reason="calls are limited in time and memory as POSIX has it")
from fuzz.report import Report
from fuzz.runner import BLOCK, Plan, Worker, cases_of, run
from fuzz.targets import TARGETS

ROOT = Path(__file__).parents[1]
SABOTEURS = Plan(table="saboteurs", seconds=0.1)


def test_every_verdict_is_given_where_it_is_deserved(tmp_path):
    worker = Worker(SABOTEURS, str(tmp_path))
    names = list(SABOTEURS.targets())
    found = [finding for block in range(len(names)) for finding in worker.run(block, 1)]
    worker.close()
    assert sorted(finding.target for finding in found) == sorted(names)
    for finding in found:
        assert finding.target.startswith(finding.verdict)


def test_oracles_tell_what_is_nearly_right():
    rng = np.random.default_rng(0)
    loss, search = TARGETS["losses.MultiSimilarity"], TARGETS["Database.remove"]
    Z, y = rng.integers(-3, 4, (12, 3)), rng.integers(0, 2, 12)
    single = {"alpha": np.float32(2), "base": 1.0, "Z": Z, "y": y}
    value, grad = loss.call(**single)
    assert loss.oracle(single, (value, grad)) is None
    assert "slope" in loss.oracle(single, (value, 1.03 * grad))
    X, more, queries = (rng.normal(size=(n, 16)) for n in (300, 12, 4))
    changed = {"X": X, "more": more, "ids": np.array([1, 2]), "queries": queries}
    distances, ids = search.call(**changed)
    assert search.oracle(changed, (distances, ids)) is None
    for wrong in ((distances, ids[:, ::-1]), ((1 + 1e-9) * distances, ids)):
        assert search.oracle(changed, wrong).startswith("row 0")
    for change in (
        {"ids": ids[0, :1]},
        {"where": ids[0, 1:]},
        {"where": (ids[:, 0], np.delete(range(312), [1, 2]))},
    ):
        assert "should be" in search.oracle(changed | change, (distances, ids))


def test_a_call_can_be_repeated():
    plan = Plan(only="neighbors")
    cases = [repr(case) for case in cases_of(plan.targets(), 5, 3)]
    assert len(cases) == BLOCK
    assert cases == [repr(case) for case in cases_of(plan.targets(), 5, 3)]
    assert cases[:8] == [repr(case) for case in cases_of(plan.targets(), 5, 3, 8)]
    assert cases != [repr(case) for case in cases_of(plan.targets(), 6, 3)]
    command = [sys.executable, "-m", "tests.fuzz", "--only", "neighbors", "--seed", "5"]
    replayed = subprocess.run(
        [*command, "--replay", str(3 * BLOCK + 2)], cwd=ROOT, check=True, capture_output=True
    )
    assert replayed.stdout.decode().startswith(f"{cases[2]}\n")


def test_reports_tell_causes_apart():
    plan = SABOTEURS._replace(only="error from")
    report = Report(plan)
    for finding in run(plan, 4 * BLOCK):
        report.add(finding)
    assert report.bad == 4 * BLOCK
    for cause in ("IndexError: X", "names no argument: ValueError", "SystemExit: X"):
        assert f"error from inside, {BLOCK} times: {cause}" in str(report)
    assert "--table saboteurs --only 'error from' --seconds 0.1 --replay " in str(report)


def test_a_short_run_finds_nothing(tmp_path):
    """Runs a few calls of each of 250 functions."""
    report, worker = Report(Plan()), Worker(Plan(), str(tmp_path))
    for block in range(250):
        for finding in worker.run(block, 8):
            report.add(finding)
    worker.close()
    assert report.bad == 0, str(report)
