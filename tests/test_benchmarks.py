"""The benchmark suite runs, finds wrong results, compares revisions, and judges its targets."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks import (
    against,
    data,
    embedding,
    kernels,
    learners,
    losses,
    objectives,
    revisions,
    search,
    timing,
)  # fmt: skip
from benchmarks.bounds import Rates
from benchmarks.case import LEVELS, OURS, Case, Outcome, Row
from benchmarks.loss_definitions import DEFINITIONS
from benchmarks.ours import LEARNERS, ours
from benchmarks.peers import PeerFailedError, Worker
from benchmarks.suite import cases
from benchmarks.targets import ErrorAtMost, MemoryAtMost, SecondsAtMost, Speedup, TimesAtMost
from thinned import thinned

import metricfast

THEIRS = f"{OURS} @abc"
RATES = Rates(
    gemm={"float32": 2e11, "float64": 1e11},
    write=1e10,
    first_touch=5e9,
    read=2e10,
    exponentials={"float32": 1e9, "float64": 5e8},
)


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


def test_levels_are_nested_and_names_unique():
    chosen = {level: [case.name for case in cases(level)] for level in LEVELS}
    assert len(set(chosen["full"])) == len(chosen["full"])
    assert set(chosen["quick"]) < set(chosen["normal"]) < set(chosen["full"])
    assert [case.name for case in cases("quick", ["mnist-n"])] == ["mnist-nca"]


def test_the_command_prints_a_table_and_writes_json(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("METRICFAST_PEER_PYTHON", str(tmp_path / "absent" / "python"))
    monkeypatch.setattr(command.bounds, "measure", lambda: RATES)
    monkeypatch.setattr(command, "cases", lambda level, only: [tiny_pairwise(), tiny_fit()])
    assert command.main(["--rounds", "2", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for expected in ("lower bound", "vs ours", "≥ 3x scikit-learn", "setup-peers"):
        assert expected in printed
    pairwise, fit = json.loads((tmp_path / "benchmarks.json").read_text())["cases"]
    assert pairwise["bound_seconds"] > 0
    assert [entry["label"] for entry in pairwise["entries"]] == [OURS, "scikit-learn"]
    for entry in pairwise["entries"]:
        assert entry["status"] == "ok", entry
        assert entry["seconds"] == np.mean(entry["samples"]) > 0
    ours, missing = fit["entries"]
    assert set(ours["metrics"]) == {"objective", "error", "iterations"}
    assert missing["status"] == "missing" and missing["seconds"] is None


def test_the_command_lists_cases_and_rejects_unknown_ones(capsys):
    assert command.main(["--list", "--only", "import"]) == 0
    assert capsys.readouterr().out.startswith("import ")
    assert command.main(["--only", "no-such-case"]) == 2


@pytest.mark.parametrize(("kind", "size"), [("pairs", 2), ("triplets", 3), ("quadruplets", 4)])
def test_tuples_are_what_the_labels_say(kind, size):
    arrays = data.tuples(kind, 500, 100)
    labels = data.synthetic(5000)["y"]
    for part in ("", "_test"):
        index = arrays[f"index{part}"]
        assert index.shape == (100 if part else 500, size)
        found = labels[index]
        near = found[:, 0] == found[:, 1]
        if kind == "pairs":
            np.testing.assert_array_equal(near, arrays[f"y{part}"] == 1)
        else:
            assert near.all()
            assert (found[:, 0] != found[:, -1]).all()


@pytest.mark.parametrize("loss", DEFINITIONS)
def test_gradients_of_definitions(loss):
    arrays = losses.batch(24, continuous=loss == "LogRatio")
    z, y = arrays["Z"].astype(float), arrays["Y" if "Y" in arrays else "y"].astype(float)
    value, gradient = DEFINITIONS[loss](z, y)
    assert value > 0
    step = 1e-6
    for direction in np.random.default_rng(1).normal(size=(3, *z.shape)):
        above, below = (DEFINITIONS[loss](z + sign * step * direction, y)[0] for sign in (1, -1))
        slope = (above - below) / (2 * step)
        assert (gradient * direction).sum() == pytest.approx(slope, rel=1e-5, abs=1e-7)


def contest(cases, name, arrays):
    """Return the named case with other arrays."""
    case = next(case for case in cases if case.name == name)
    case.arrays = arrays
    return case


def numbers(n):
    return {"Y": np.random.default_rng(0).standard_normal((n, 1))}


SEARCH = search.Search(2000, 6, 30, 4)
CONTESTS = {
    "map": lambda: search.map_at_r(300, 60, d=16),
    "loss of classes": lambda: contest(
        losses.losses(), "loss-triplet-256", lambda: losses.batch(64, continuous=False)
    ),
    "loss of numbers": lambda: contest(
        losses.losses(), "loss-log-ratio-256", lambda: losses.batch(64, continuous=True)
    ),
    "step": lambda: next(case for case in embedding.embedding() if case.name == "mlp-step"),
    "sampler": lambda: contest(embedding.embedding(), "sampler-1d", lambda: numbers(500)),
    "step of a table": lambda: contest(
        embedding.embedding(), "tabular-nca-step", lambda: embedding.table_batch(3000)
    ),
    "search by a tree": lambda: search.search(search.Search(2000, 3, 50, 4)),
    "search of wide points": lambda: search.search(search.Search(2000, 20, 1, 4)),
    "filter": lambda: search.some(SEARCH, 0.1),
    "stream": lambda: search.stream(SEARCH, 1),
}


@pytest.mark.parametrize("name", thinned(CONTESTS))
def test_contestants_agree(name, tmp_path):
    """All installed contestants, on little data."""
    case = CONTESTS[name]()
    for entry in case.entries:
        entry.threads = (1,)
    outcomes = timing.run_case(case, tmp_path, rounds=1, level="full")
    assert {outcome.status for outcome in outcomes} <= {"ok", "missing"}, outcomes
    assert outcomes[0].status == "ok", outcomes


def test_wrong_maps_and_neighbours_among_some_are_found():
    map_at_r = search.map_at_r(300, 60, d=16)
    assert set(map_at_r.check({}, {OURS: {"value": 0.5}, "other": {"value": 0.50001}})) == {OURS}
    wrong = {"indices": np.zeros((30, 4), int), "distances": np.zeros((30, 4))}
    for case in (search.some(SEARCH, 0.1), search.stream(SEARCH, 1)):
        others = {OURS: wrong, "peer": {"indices": wrong["indices"] + 40}}
        assert OURS in case.check(case.arrays(), others)


def test_a_wrong_gradient_is_found():
    arrays = losses.batch(64, continuous=False)
    value, gradient = DEFINITIONS["Triplet"](arrays["Z"].astype(float), arrays["y"])
    right = {"value": np.asarray(value), "gradient": gradient}
    for wrong in ({"gradient": gradient * 1.002}, {"value": np.asarray(value * 1.002)}):
        found = losses.check("Triplet", arrays, {"right": right, "wrong": right | wrong})
        assert list(found) == ["wrong"]


def test_wrong_neighbours_are_found_equal_distances_aside():
    case = search.search(search.Search(300, 8, 40, 3))
    arrays = case.arrays()
    arrays["database"][200:] = arrays["database"][:100]
    gap = arrays["queries"][:, None].astype(float) - arrays["database"]
    nearest = np.argsort((gap**2).sum(-1), axis=1, kind="stable")[:, :3]
    twins = np.where(nearest < 100, nearest + 200, nearest)
    wrong = nearest.copy()
    wrong[7] = [290, 291, 292]
    right, swapped, off = ({"indices": indices} for indices in (nearest, twins, wrong))
    digests = {OURS: right, "peer": swapped, search.FLOATS: swapped, "off": off, "reading": {}}
    complaints = case.check(arrays, digests)
    assert set(complaints) == {search.FLOATS, "off"}
    assert "2.50%" in complaints["off"]
    assert set(case.check(arrays, {OURS: off})) == {OURS}


def test_every_learner_and_every_loss_has_a_case():
    names = {case.name for case in ours()}
    assert {f"our-{name}" for name in metricfast.learners.__all__} <= names
    assert {f"our-loss-{name}" for name in metricfast.losses.__all__ if name != "Compiled"} <= names
    assert {name.partition("-")[0] for name in LEARNERS} == set(metricfast.learners.__all__)


def timed(label, *samples, cpu=1.0, threads=2):
    return Outcome(label, "ok", "", threads, sorted(samples)[1], list(samples), cpu)


def row(name, ours, theirs):
    (case,) = against.cases("@abc", "quick", [name])
    (verdict,) = (target.judge({OURS: ours, THEIRS: theirs}) for target in case.targets)
    return Row(case, [ours, theirs], [verdict], None, None)


def test_what_is_slower_is_told():
    rows = [
        row("our-NCA-adam", timed(OURS, 1, 1, 9), timed(THEIRS, 1, 0.9, 8.1)),
        row("our-LFDA", timed(OURS, 1, 2, 4), timed(THEIRS, 1.1, 2.2, 1)),
        row("our-RCA_", timed(OURS, 2, 2, 2, threads=1), timed(THEIRS, 1, 1, 1, cpu=0.98)),
        row("our-ANMM", timed(OURS, 1, 1, 1), Outcome(THEIRS, "failed")),
    ]
    assert [row.verdicts[0].reached for row in rows] == [False, True, True, None]
    assert against.summary(against.ratios(rows)).splitlines() == [
        "not measured: our-ANMM",
        "smallest ratio: 0.90x, our-NCA-adam",
        "below 0.97x: our-NCA-adam: 0.90x, by processor time 1.00x",
    ]


def test_the_command_measures_again_what_seems_slower(monkeypatch, tmp_path, capsys):
    rounds = []

    def run(case, folder, count, **options):
        rounds.append(count)
        ours, theirs = (entry.label for entry in case.entries)
        return [timed(ours, *(2 if count < 9 else 1,) * 3), timed(theirs, 1, 1, 1)]

    monkeypatch.setattr(command, "run_case", run)
    monkeypatch.setattr(command.bounds, "measure", lambda: RATES)
    monkeypatch.setattr(revisions, "resolve", lambda revision: "abcdefabcdef")
    monkeypatch.setattr(revisions, "install", lambda commit: Path(sys.executable))
    arguments = ["--against", "x", "--only", "our-ITML_", "--quick", "--output", str(tmp_path)]
    assert command.main(arguments) == 0
    assert rounds == [5, 15]
    assert "smallest ratio: 1.00x, our-ITML_Supervised" in capsys.readouterr().out
    assert '"our-ITML_Supervised": {' in (tmp_path / "against.json").read_text()
