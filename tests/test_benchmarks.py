"""The benchmark suite runs, finds wrong results, and reports what it cannot run."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks import kernels, learners, objectives, peers, recorded, timing
from benchmarks.bounds import Rates
from benchmarks.case import LEVELS, OURS, Case, Entry, Outcome, Row
from benchmarks.peers import PeerFailedError, PeerMissingError, Run, Worker
from benchmarks.suite import cases
from benchmarks.targets import ErrorAtMost, MemoryAtMost, SecondsAtMost, Speedup, TimesAtMost

RATES = Rates(
    gemm={"float32": 2e11, "float64": 1e11},
    write=1e10,
    first_touch=5e9,
    read=2e10,
    exponentials={"float32": 1e9, "float64": 5e8},
)


@pytest.fixture
def no_older_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("METRICFAST_PEER_PYTHON", str(tmp_path / "absent" / "python"))


def on_one_thread(case: Case) -> Case:
    for entry in case.entries:
        entry.threads = (1,)
    return case


def tiny_pairwise() -> Case:
    case = kernels.pairwise("float64", n=300, d=20, p=8)
    case.entries = [entry for entry in case.entries if entry.label in (OURS, "scikit-learn")]
    return on_one_thread(case)


def tiny_fit() -> Case:
    case = learners.fit("NCA", 400, when="quick", peer="quick", metric_learn="quick")
    case.entries[0].params["max_iter"] = 5
    case.entries = [entry for entry in case.entries if entry.label in (OURS, "metric-learn")]
    return on_one_thread(case)


def test_wrong_distances_are_found():
    case = tiny_pairwise()
    arrays = case.arrays()
    x, y = (arrays[name] @ arrays["L"].T for name in ("X", "Y"))
    grid = np.linspace(0, 299, 97).astype(int)
    right = np.linalg.norm(x[grid][:, None] - y[grid][None], axis=-1)
    wrong = right.copy()
    wrong[3, 5] *= 1 + 1e-9
    complaints = case.check(arrays, {"right": {"sample": right}, "wrong": {"sample": wrong}})
    assert list(complaints) == ["wrong"]
    assert "disagrees" in complaints["wrong"]


def test_wrong_neighbors_are_found():
    case = kernels.neighbors("float64", n_queries=50, n_database=80, d=3, k=2)
    arrays = case.arrays()
    difference = arrays["queries"][:, None] - arrays["database"][None]
    distances = np.linalg.norm(difference, axis=-1)
    indices = np.argsort(distances, axis=1)[:, :2]
    right = {"distances": np.sort(distances, axis=1)[:, :2], "indices": indices}
    swapped = {**right, "indices": indices[:, ::-1]}
    assert list(case.check(arrays, {"a": right, "b": swapped, "products": {}})) == ["b"]


def test_fits_are_scored_and_a_missing_peer_is_not_fatal(tmp_path, no_older_environment):
    outcomes = timing.run_case(tiny_fit(), tmp_path, rounds=1)
    by_label = {o.label: o for o in outcomes}
    ours = by_label[OURS]
    assert ours.status == "ok", ours.detail
    assert set(ours.metrics) == {"objective", "error", "iterations"}
    assert 0 < ours.metrics["error"] < 0.9
    assert by_label["metric-learn"].status == "missing"
    assert "setup-peers" in by_label["metric-learn"].detail
    assert by_label["metric-learn"].seconds is None


def test_a_failing_call_is_reported(tmp_path):
    case = kernels.neighbors("float64", n_queries=5, n_database=6, d=3, k=7)
    case.entries = case.entries[:1]
    case.check = lambda arrays, digests: {}
    (outcome,) = timing.run_case(case, tmp_path, rounds=1)
    assert outcome.status == "failed"
    assert "ValueError" in outcome.detail


def test_an_absent_package_is_missing():
    with pytest.raises(PeerMissingError, match="No module named"):
        Worker("numpy", "baseline.importing", {}, {"name": "no_such_package"}, 1)


def test_a_worker_measures_memory_and_is_stopped_in_time():
    worker = Worker("numpy", "baseline.first_touch", {}, {"size": 64_000_000}, 1)
    try:
        run = worker.run(timeout=60)
        assert run.seconds > 0
        assert run.peak_bytes is None or 60e6 < run.peak_bytes < 80e6
        with pytest.raises(PeerFailedError, match="> 0 s"):
            worker.run(timeout=0)
    finally:
        worker.close()


def test_workers_do_not_inherit_a_pinned_core_type(monkeypatch):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    environment = peers._environment(1)
    assert "OPENBLAS_CORETYPE" not in environment
    assert environment["OMP_NUM_THREADS"] == "1"


class ClockedWorker:
    """A worker with predefined times: two threads are slower than one."""

    log: ClassVar[list[str]] = []
    seconds: ClassVar = {"fast": iter([9.0, 1.0, 2.0]), "slow": iter([9.0, 30.0, 10.0, 20.0])}

    def __init__(self, peer, call, arrays, params, threads):
        self.peer, self.threads, self.versions = peer, threads, {}
        self.trial = params.get("trial", False)

    def run(self, timeout, digest=None):
        if self.trial:
            return Run(float(self.threads), 0.0, None)
        self.log.append(self.peer)
        if digest is not None:
            np.savez(digest)
        seconds = next(self.seconds[self.peer], None)
        if seconds is None:
            raise PeerFailedError("> 5 s")
        return Run(seconds, seconds / 2, int(seconds))

    def close(self):
        pass


def test_rounds_interleave_and_medians_count(monkeypatch, tmp_path):
    monkeypatch.setattr(timing, "Worker", ClockedWorker)
    monkeypatch.setattr(timing.os, "cpu_count", lambda: 2)
    entries = [
        Entry("fast", "fast", "", probe={"trial": True}),
        Entry("slow", "slow", "", threads=(2,)),
        Entry("later", "later", "", when="full"),
    ]
    case = Case("case", "title", dict, entries)
    kept = Outcome("later", "recorded", seconds=7.0)
    fast, slow, later = timing.run_case(
        case, tmp_path, rounds=3, recorded=lambda case, label: kept if label == "later" else None
    )
    assert ClockedWorker.log == ["fast", "slow", "fast", "slow", "slow", "fast", "fast", "slow"]
    assert (fast.status, fast.threads) == ("failed", 1)
    assert fast.seconds is None
    assert (slow.status, slow.threads, slow.seconds) == ("ok", 2, 20.0)
    assert (slow.samples, slow.cpu_seconds, slow.peak_bytes) == ([30.0, 10.0, 20.0], 5.0, 30)
    assert later is kept


def outcome(seconds: float, status: str = "ok", peak: int = 0, **metrics: float) -> Outcome:
    return Outcome("", status, seconds=seconds, peak_bytes=peak, metrics=metrics)


@pytest.mark.parametrize(
    ("target", "ours", "peer", "reached"),
    [
        (Speedup("peer", 2), outcome(1.0), outcome(2.0), True),
        (Speedup("peer", 2), outcome(1.0), outcome(2.0, "recorded"), True),
        (Speedup("peer", 2), outcome(1.1), outcome(2.0), False),
        (Speedup("peer", 2), outcome(1.0), outcome(2.0, "failed"), None),
        (Speedup("peer", 2), outcome(1.0, objective=-9.995), outcome(2.0, objective=-10.0), True),
        (Speedup("peer", 2), outcome(1.0, objective=-9.9), outcome(2.0, objective=-10.0), False),
        (TimesAtMost("peer", 1.5), outcome(1.4), outcome(1.0), True),
        (TimesAtMost("peer", 1.5), outcome(1.6), outcome(1.0), False),
        (MemoryAtMost(150), outcome(1.0, peak=150_000_000), outcome(1.0), True),
        (MemoryAtMost(150), outcome(1.0, peak=151_000_000), outcome(1.0), False),
        (SecondsAtMost(3), outcome(3.1), outcome(1.0), False),
        (ErrorAtMost(("peer",), 0.3), outcome(1.0, error=0.053), outcome(1.0, error=0.05), True),
        (ErrorAtMost(("peer",), 0.3), outcome(1.0, error=0.054), outcome(1.0, error=0.05), False),
        (ErrorAtMost(("peer",), 0, True), outcome(1.0, error=0.1), outcome(1.0, error=0.1), False),
        (ErrorAtMost(("peer",)), outcome(1.0, error=0.1), outcome(1.0), None),
    ],
)
def test_targets(target, ours, peer, reached):
    assert target.judge({OURS: ours, "peer": peer}).reached is reached


def test_objectives_match_their_definitions():
    rng = np.random.default_rng(0)
    x, y, linear = rng.normal(size=(30, 4)), np.arange(30) % 3, rng.normal(size=(2, 4))
    z = x @ linear.T
    nca = push = pull = 0.0
    for i in range(30):
        d = ((z - z[i]) ** 2).sum(axis=1)
        others = np.arange(30) != i
        nca -= np.exp(-d)[others & (y == y[i])].sum() / np.exp(-d)[others].sum()
        original = np.where(others & (y == y[i]), ((x - x[i]) ** 2).sum(axis=1), np.inf)
        for target in np.argsort(original)[:3]:
            pull += d[target]
            push += np.maximum(1 + d[target] - d[y != y[i]], 0).sum()
    assert objectives.nca_objective(linear, x, y) == pytest.approx(nca, rel=1e-10)
    lmnn = objectives.lmnn_objective(linear, x, y, k=3, regularization=0.3)
    assert lmnn == pytest.approx(0.3 * pull + 0.7 * push, rel=1e-10)


def test_error_counts_votes_and_the_nearest_settles_ties():
    x, y = np.array([[0.0], [1.0], [2.0], [10.0], [11.0], [12.0]]), np.array([2, 1, 0, 5, 6, 6])
    x_test, y_test = np.array([[0.1], [10.1], [1.1], [1.9]]), np.array([2, 6, 0, 0])
    assert objectives.test_error(np.eye(1), x, y, x_test, y_test) == 0.25


def test_slow_results_are_kept_and_found(monkeypatch, tmp_path):
    monkeypatch.setattr(recorded, "FILE", tmp_path / "recorded.json")
    entries = [Entry("quick", "q", ""), Entry("slow", "s", "", when="full")]
    outcomes = [Outcome("quick", "ok", seconds=1.0), Outcome("slow", "ok", seconds=99.0)]
    about = {"date": "2025-01-01", "cpu": "a cpu", "cores": 2, "command": "run"}
    recorded.keep(about, [Row(Case("case", "", dict, entries), outcomes, [], None, None)])
    assert recorded.find("case", "quick") is None
    found = recorded.find("case", "slow")
    assert found is not None
    assert (found.status, found.seconds) == ("recorded", 99.0)
    assert "2025-01-01" in found.detail
    assert "a cpu" in found.detail


def test_levels_are_nested_and_names_unique():
    chosen = {level: [case.name for case in cases(level)] for level in LEVELS}
    assert len(set(chosen["full"])) == len(chosen["full"])
    assert set(chosen["quick"]) < set(chosen["normal"]) < set(chosen["full"])
    assert [case.name for case in cases("quick", ["mnist-n"])] == ["mnist-nca"]


def test_absent_data_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("METRICFAST_DATA", str(tmp_path))
    (case,) = cases("normal", ["quality-usps-nca"])
    assert {o.status for o in timing.run_case(case, tmp_path, rounds=1)} == {"missing"}


def test_the_command_prints_a_table_and_writes_json(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(command.bounds, "measure", lambda: RATES)
    monkeypatch.setattr(command, "cases", lambda level, only: [tiny_pairwise()])
    assert command.main(["--rounds", "2", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for expected in ("lower bound", OURS, "scikit-learn", "vs ours", "≥ 3x scikit-learn"):
        assert expected in printed
    document = json.loads((tmp_path / "benchmarks.json").read_text())
    assert document["schema"] == 1
    assert {"cpu", "cores", "date", "command", "load_at_start", "load_at_end"} <= set(
        document["machine"]
    )
    (case,) = document["cases"]
    assert case["bound_seconds"] > 0
    assert {entry["label"] for entry in case["entries"]} == {OURS, "scikit-learn"}
    for entry in case["entries"]:
        assert {"threads", "peak_bytes"} <= set(entry)
        assert entry["status"] == "ok", entry
        assert len(entry["samples"]) == 2
        assert entry["seconds"] == np.mean(entry["samples"]) > 0
        assert entry["versions"]["numpy"] == np.__version__
    assert [set(target) for target in case["targets"]] == [{"text", "reached"}]
    assert (tmp_path / "benchmarks.png").exists() == (command.plot is not None)


def test_the_command_lists_cases_and_rejects_unknown_ones(capsys):
    assert command.main(["--list", "--only", "import"]) == 0
    assert capsys.readouterr().out.startswith("import ")
    assert command.main(["--only", "no-such-case"]) == 2
