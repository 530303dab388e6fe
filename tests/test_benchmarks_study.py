"""The study of dimensions runs, goes on where it was stopped, and reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import study_dimension as study
from benchmarks import study_tables
from benchmarks.study_losses import BinaryTriplet


@pytest.fixture
def small(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(700, 6))
    points = x, x[:, :1] ** 2 + 0.1 * rng.normal(size=(700, 1))
    monkeypatch.setattr(study, "load", lambda name: points)
    monkeypatch.setattr(study, "HIDDEN", 8)


def test_splits_do_not_overlap(small):
    given = study.split(*study.load(""), seed=1)
    sizes = {name: len(part) for name, part in given.items() if name.startswith("X")}
    assert sizes == {"X_train": 500, "X_query": 60, "X_gallery": 138}
    inner = study.validation(given)
    rows = np.concatenate([inner[f"X_{part}"] for part in ("train", "query", "gallery")])
    assert len(np.unique(rows, axis=0)) == 500
    everything = np.concatenate([given[f"X_{part}"] for part in ("train", "query", "gallery")])
    assert len(np.unique(everything, axis=0)) == 698


def test_the_study_goes_on_where_it_was_stopped(small, monkeypatch, tmp_path):
    monkeypatch.setattr(study, "METHODS", [study.METHODS[0], study.METHODS[5], study.METHODS[-1]])
    file, calls, train = tmp_path / "results" / "x.json", [], study.train

    def counted(*arguments):
        if len(calls) == 10:
            raise KeyboardInterrupt
        calls.append(arguments)
        return train(*arguments)

    monkeypatch.setattr(study, "train", counted)
    with pytest.raises(KeyboardInterrupt):
        list(study.study("x", (2,), 2, 100, file))
    stopped = json.loads(file.read_text())
    monkeypatch.setattr(study, "train", lambda *a: calls.append(a) or train(*a))
    assert len(list(study.study("x", (2,), 2, 100, file))) == 3
    assert len(calls) == 3 * (6 + 2)
    kept = json.loads(file.read_text())
    first = f"{study.METHODS[0].name}/2"
    assert kept[first] == stopped[first]
    list(study.study("x", (2,), 2, 100, file))
    assert len(calls) == 3 * (6 + 2)
    for method in study.METHODS:
        for scores in kept[f"{method.name}/2"]["seeds"].values():
            assert 0 < scores["ndcg_at_k"] <= 1
    text = study_tables.report({"x": kept}, (2,), tmp_path / "plot.png")
    assert "### x\n\nPoints as they come: 0." in text
    assert "| x: training points | 0." in text
    assert all(f"| {method.name} | 0." in text for method in study.METHODS)
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_binary_triplet_is_its_definition():
    rng = np.random.default_rng(0)
    y_train, z, y = rng.normal(size=(80, 1)), rng.normal(size=(20, 3)), rng.normal(size=(20, 1))
    loss = BinaryTriplet(y_train, margin=0.2, n_positives=10)
    anchors = np.arange(4)

    def by_definition(z):
        means = []
        for i in anchors:
            radius = np.sort(np.abs(y_train - y[i]).ravel())[10]
            others = np.arange(20) != i
            near = np.abs(y - y[i]).ravel() <= radius
            d = ((z - z[i]) ** 2).sum(axis=1)
            hinge = d[others & near][:, None] - d[others & ~near][None] + 0.2
            means.append(hinge[hinge > 0].mean())
        return np.mean(means)

    value, (by_query, by_database) = loss(z[:4], y[:4], z, y, exclude=anchors)
    assert value == pytest.approx(by_definition(z), rel=1e-9)
    direction = rng.normal(size=z.shape)
    above, below = (by_definition(z + step * direction) for step in (1e-6, -1e-6))
    slope = (by_database * direction).sum() + (by_query * direction[:4]).sum()
    assert slope == pytest.approx((above - below) / 2e-6, rel=1e-5)
    same = BinaryTriplet(y_train, margin=0.2)(z, y)
    assert same[1].shape == z.shape
