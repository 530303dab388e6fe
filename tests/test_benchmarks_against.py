"""Comparison of revisions: the contestant, a case for every learner and loss, and the report."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks import __main__ as command
from benchmarks import against, peers, revisions
from benchmarks.case import OURS, Outcome, Row
from benchmarks.ours import LEARNERS, ours
from test_benchmarks import RATES

import metricfast

THEIRS = f"{OURS} @abc"


@pytest.fixture
def repository(monkeypatch, tmp_path):
    """A repository with two commits; its package returns the revision."""
    if not shutil.which("git"):
        pytest.skip("needs git")
    monkeypatch.setattr(revisions, "ROOT", tmp_path)
    monkeypatch.setattr(revisions, "FOLDER", tmp_path / ".bench-revisions")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=e"]
    subprocess.run([*git, "init", "-q"], check=True)
    for revision in ("old", "new"):
        (tmp_path / "metricfast.py").write_text(f"revision = {revision!r}")
        subprocess.run([*git, "add", "metricfast.py"], check=True)
        subprocess.run([*git, "commit", "-qm", revision], check=True)


def test_a_revision_is_built_once_in_an_environment_that_sees_the_packages(repository, monkeypatch):
    built = []

    def build(source, python, levels, editable):
        built.append(source)
        (packages,) = python.parent.parent.glob("**/site-packages")
        shutil.copy(source / "metricfast.py", packages)

    monkeypatch.setattr(revisions, "_build", build)
    python = revisions.install(revisions.resolve("HEAD~1"))
    assert revisions.install(revisions.resolve("HEAD~1")) == python
    assert len(built) == 1
    program = "import metricfast, numpy; print(metricfast.revision, numpy.__version__)"
    found = subprocess.run([python, "-c", program], check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["old", np.__version__]
    with pytest.raises(peers.RevisionError, match="no revision 'v9'"):
        revisions.resolve("v9")


def test_every_learner_and_every_loss_has_a_case():
    names = {case.name for case in ours()}
    assert {f"our-{name}" for name in metricfast.learners.__all__} <= names
    assert {f"our-loss-{name}" for name in metricfast.losses.__all__ if name != "Compiled"} <= names
    assert {name.partition("-")[0] for name in LEARNERS} == set(metricfast.learners.__all__)


def test_each_call_runs_beside_that_of_the_revision(monkeypatch):
    monkeypatch.setitem(peers.INTERPRETERS, "@abc", Path("/its/python"))
    (case,) = against.cases("@abc", "quick", ["loss-triplet-256"], threads=1)
    assert [entry.label for entry in case.entries] == [OURS, THEIRS]
    assert [peers.interpreter(entry.peer) for entry in case.entries] == [
        Path(sys.executable),
        Path("/its/python"),
    ]
    assert case.entries[0].params == case.entries[1].params
    assert {entry.threads for entry in case.entries} == {(1,)}
    quick, normal = (against.cases("@abc", level) for level in ("quick", "normal"))
    assert {case.name for case in quick} < {case.name for case in normal}
    assert {e.peer for case in normal for e in case.entries} == {OURS, "@abc"}


def outcome(label, *samples, cpu=1.0, threads=2):
    return Outcome(label, "ok", "", threads, sorted(samples)[1], list(samples), cpu)


def row(name, ours, theirs):
    (case,) = against.cases("@abc", "quick", [name])
    (verdict,) = (target.judge({OURS: ours, THEIRS: theirs}) for target in case.targets)
    return Row(case, [ours, theirs], [verdict], None, None)


def test_what_is_slower_is_told():
    rows = [
        row("our-NCA-adam", outcome(OURS, 1, 1, 9), outcome(THEIRS, 1, 0.9, 8.1)),
        row("our-LFDA", outcome(OURS, 1, 2, 4), outcome(THEIRS, 1.1, 2.2, 1)),
        row("our-RCA_", outcome(OURS, 2, 2, 2, threads=1), outcome(THEIRS, 1, 1, 1, cpu=0.98)),
        row("our-ANMM", outcome(OURS, 1, 1, 1), Outcome(THEIRS, "failed")),
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
        return [outcome(ours, *(2 if count < 9 else 1,) * 3), outcome(theirs, 1, 1, 1)]

    monkeypatch.setattr(command, "run_case", run)
    monkeypatch.setattr(command.bounds, "measure", lambda: RATES)
    monkeypatch.setattr(revisions, "resolve", lambda revision: "abcdefabcdef")
    monkeypatch.setattr(revisions, "install", lambda commit: Path(sys.executable))
    arguments = ["--against", "x", "--only", "our-ITML_", "--quick", "--output", str(tmp_path)]
    assert command.main(arguments) == 0
    assert rounds == [5, 15]
    assert "smallest ratio: 1.00x, our-ITML_Supervised" in capsys.readouterr().out
    assert '"our-ITML_Supervised": {' in (tmp_path / "against.json").read_text()
