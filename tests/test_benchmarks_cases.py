"""Cases of benchmarks and studies: correct data and definitions, and detection of wrong results."""

from __future__ import annotations

import json

import benchmarks.gerrymandering
import numpy as np
import pytest
from benchmarks import (
    data,
    embedding,
    kedem,
    losses,
    objectives,
    search,
    study_defaults,
    study_tables,
    timing,
)
from benchmarks import study_dimension as study
from benchmarks.case import OURS, Outcome
from benchmarks.gerrymandering import METHODS, Results, compare, crossings, main, splits
from benchmarks.loss_definitions import DEFINITIONS
from benchmarks.study_losses import BinaryTriplet
from benchmarks.targets import GrowthAtMost
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from thinned import thinned


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


def test_chunks_share_a_label():
    arrays = data.chunks()
    for chunk in np.unique(arrays["chunks"])[:50]:
        assert len(np.unique(arrays["y"][arrays["chunks"] == chunk])) == 1
    assert np.bincount(np.unique(arrays["chunks"], return_inverse=True)[1]).max() == 20


def test_error_of_tuples():
    x = np.array([[0.0], [1.0], [3.0]])
    assert objectives.tuple_error(np.eye(1), x, np.array([[0, 1, 2], [0, 2, 1]])) == 0.5
    assert objectives.tuple_error(np.eye(1), x, np.array([[0, 1, 0, 2]])) == 0
    pairs = np.array([[0, 1], [0, 2]])
    assert objectives.tuple_error(np.eye(1), x, pairs, np.array([1, -1])) == 0
    assert objectives.tuple_error(np.eye(1), x, pairs, np.array([-1, 1])) == 1


def test_the_nearest_of_a_similarity_are_those_of_largest_products():
    x, y = np.array([[1.0, 0], [2, 0], [3, 0], [0, 9]]), np.array([0, 0, 1, 1])
    queries = np.array([[1.0, 0.5], [1, 0]])
    assert objectives.similarity_error(np.eye(2), x, y, queries, np.array([1, 0])) == 0
    assert objectives.similarity_error(-np.eye(2), x, y, queries, np.array([0, 0])) == 0


def test_study_of_few_points(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("METRICFAST_DATA", str(tmp_path))
    study_defaults.compare_few_points(["LFDA", "DMLMJ"])
    printed = capsys.readouterr().out
    assert printed.count("| given |") == 3 and printed.count("| LFDA |") == 3


def test_a_vote_of_neighbours_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(200, 3)), rng.integers(2, size=200)
    for k in (3, 5):
        model = KNeighborsClassifier(k, algorithm="brute").fit(x[:150], y[:150])
        expected = 1 - model.score(x[150:], y[150:])
        found = objectives.neighbor_error(np.eye(3), x[:150], y[:150], x[150:], y[150:], k)
        assert found == pytest.approx(expected)


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


def test_growth_is_fitted():
    sizes = {"a": 100, "b": 200, "c": 400}
    outcomes = {name: Outcome(name, "ok", samples=[9e9, size**2.0]) for name, size in sizes.items()}
    verdict = GrowthAtMost(sizes, 2.1).judge(outcomes)
    assert (verdict.reached, verdict.text) == (True, "time grows with a power ≤ 2.1: 2.00")
    assert GrowthAtMost(sizes, 1.9).judge(outcomes).reached is False
    assert GrowthAtMost(sizes, 2.1).judge({OURS: Outcome(OURS, "ok")}).reached is None


def test_wrong_label_neighbours_are_found():
    case = next(case for case in embedding.embedding() if case.name == "sampler-3d")
    arrays = {"Y": np.arange(6.0)[:, None]}
    right = {"anchors": np.array([0, 3]), "neighbors": np.array([[1, 2], [4, 2]])}
    wrong = right | {"neighbors": np.array([[1, 2], [4, 5]])}
    assert list(case.check(arrays, {"right": right, "wrong": wrong})) == ["wrong"]


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


def test_hard_points_are_what_they_are_called():
    points = {kind: search.adversarial(kind, 50, 300, 4) for kind in search.ADVERSARIAL}
    sizes = {kind: len(np.unique(arrays["database"], axis=0)) for kind, arrays in points.items()}
    assert (sizes.pop("equal"), sizes.pop("duplicates") <= 200) == (1, True)
    assert min(sizes.values()) == 300
    assert np.abs(points["subnormal"]["database"]).max() < np.finfo(np.float32).tiny


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
        list(study.study("x", (2,), 2, 10, file))
    stopped = json.loads(file.read_text())
    monkeypatch.setattr(study, "train", lambda *a: calls.append(a) or train(*a))
    assert len(list(study.study("x", (2,), 2, 10, file))) == 3
    assert len(calls) == 3 * (6 + 2)
    kept = json.loads(file.read_text())
    first = f"{study.METHODS[0].name}/2"
    assert kept[first] == stopped[first]
    list(study.study("x", (2,), 2, 10, file))
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


X, Y = load_iris(return_X_y=True)
X, X_TEST, Y, Y_TEST = train_test_split(X, Y, stratify=Y, random_state=0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_there_is_not_computed_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(METHODS, "NCA", None)
    path = tmp_path / "results" / "errors.json"
    compare(Results(path, again=False), "iris", 0, (X, Y, X_TEST, Y_TEST), [3])
    assert capsys.readouterr().err.count("CPU s") == len(METHODS)
    results = Results(path, again=False)
    compare(results, "iris", 0, (X, Y, X_TEST, Y_TEST), [3])
    assert not capsys.readouterr().err
    assert list(results.errors) == [f"k = 3/{method}/iris/0" for method in METHODS]
    assert all(error < 15 for error in results.errors.values())
    compare(results, "other", 0, (X, Y, X_TEST, Y_TEST), [3])
    results.errors.popitem()
    results.table("k = 3", list(METHODS), "k = 3")
    printed = capsys.readouterr().out
    assert "| iris |" in printed
    assert "| other |" not in printed  # because a method is missing
    assert not Results(path, again=True).errors


def test_published_errors_are_compared_with_ours(tmp_path, capsys):
    results = Results(tmp_path / "errors.json", again=True)
    for split, error in enumerate((61.0, 63.0)):
        results.add(f"k = 3/Euclidean/office dslr/{split}", error, 0)
        results.add(f"k = 3/LMNN/office dslr/{split}", error - 35, 0)
    results.table("k = 3", ["Euclidean", "LMNN"], "k = 3")
    print(kedem.report(results.by_row("k = 3")))
    printed = capsys.readouterr().out
    assert "| office dslr | 62.00 ± 1.41 | 27.00 ± 1.41 |" in printed
    assert "| office dslr | 62.0 | 60.6 | 1.4 | 27.0 | 28.9 | 25.0 | 22.9 |" in printed
    assert "They differ: office dslr by +1.4." in printed


def test_equal_distances_of_whole_numbers_stay_equal(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICFAST_DATA", str(tmp_path))
    monkeypatch.setattr(benchmarks.gerrymandering, "METHODS", {"Euclidean": None})
    # The query is as far from the first point as from the second.
    points = np.array([[1, 0], [0, 1], [15, 9], [0, 0]], np.uint8)
    np.savez(tmp_path / "letter.npz", X=points, y=[1, 0, 2, 1], split=[0, 0, 0, 1])
    results = Results(tmp_path / "errors.json", again=True)
    compare(results, "letter", 0, (X, Y, X_TEST, Y_TEST), [1])
    assert results.errors == {"k = 1/Euclidean/letter/0": 0}


def office_file(folder, shift=()):
    """Write office data: four domains with 100 rows each, some of them shifted by `shift`."""
    counts = np.random.default_rng(0).poisson(3, size=(400, 70))
    counts[list(shift)] += np.arange(70)
    points = {
        "X": counts.astype(np.uint8),
        "y": np.arange(400) % 2,
        "domain": np.arange(400) // 100,
    }
    np.savez(folder / "office_caltech_surf.npz", **points, domains=["a", "b", "c", "d"])


def test_office_points_are_prepared_without_the_test_points(tmp_path, monkeypatch):
    monkeypatch.setenv("METRICFAST_DATA", str(tmp_path))
    office_file(tmp_path)
    expected = next(splits(["office"], 1))[2]
    _, _, halves, (database, _) = next(crossings(1))
    labels = np.arange(100) % 2
    test = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=0).split(labels, labels))[1]
    tested = train_test_split(np.arange(100), test_size=0.5, stratify=labels, random_state=0)[1]
    office_file(tmp_path, test)
    found = next(splits(["office"], 1))[2]
    np.testing.assert_array_equal(found[0], expected[0])
    assert not np.allclose(found[2], expected[2])
    office_file(tmp_path, tested)
    _, _, found, (again, _) = next(crossings(1))
    np.testing.assert_array_equal(found[0], halves[0])
    np.testing.assert_array_equal(again, database)
    assert not np.allclose(found[2], halves[2])


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_arguments_that_are_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("METRICFAST_DATA", str(tmp_path))
    assert "letter.npz is missing: set METRICFAST_DATA" in refused(capsys, "--data", "letter")
    assert "argument --k: must be at least 1, got 0" in refused(capsys, "--k", "0")
    assert "argument --splits: must be at least 1" in refused(capsys, "--splits", "0")
