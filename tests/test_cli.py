"""The command line on small tables: what is printed, written, refused."""

from __future__ import annotations

import json
import subprocess
import sys
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

pd = pytest.importorskip("pandas")
pytest.importorskip("rich")
pytest.importorskip("safetensors")
testing = pytest.importorskip("click.testing")

import metricfast  # noqa: E402
from metricfast.__main__ import main  # noqa: E402
from metricfast.cli.app import app  # noqa: E402
from metricfast.cli.encoding import TableEncoder  # noqa: E402


def run(*arguments, code=0):
    result = testing.CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two files of flowers: two numbers with gaps, a category that tells much, names."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=120)
    frame = pd.DataFrame({"length": kind + rng.normal(size=120) / 2, "width": rng.normal(size=120)})
    frame["colour"] = np.where(rng.random(120) < 0.8, np.array(list("rgb"))[kind], "white")
    frame["name"] = [f"flower {i}" for i in range(120)]
    frame["kind"] = np.array(["iris", "rose", "lily"])[kind]
    frame["weight"] = frame["length"] * 2 + rng.normal(size=120) / 10
    frame.loc[:8, "length"] = np.nan
    frame.loc[5:7, "colour"] = None
    frame.loc[3, "kind"] = None
    frame[:80].to_csv("train.csv", index=False)
    frame[80:].to_csv("test.csv", index=False)
    return frame


def fit(*options, target="kind", learner="lfda", output="model.safetensors"):
    return run("fit", "train.csv", "--target", target, "--learner", learner, "-o", output, *options)


def test_compare(files, tmp_path):
    options = ("--learner", "lfda", "--learner", "RCA_Supervised", "--drop", "weight", "-k", 3)
    result = run(
        "compare", "train.csv", "--target", "kind", *options, "-o", "table.csv", "--plot", "p.png"
    )
    assert "accuracy of 3 neighbours: 79 points, 3 classes, 5 folds" in result.stdout
    assert "best: " in result.stdout
    assert "79 rows, 2 columns of numbers, 1 of categories" in result.stderr
    assert "missing: length (8), colour (3)" in result.stderr
    assert "name (79 different texts; --categorical name keeps it)" in result.stderr
    assert "rows without target, left out: 1" in result.stderr
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    table = pd.read_csv("table.csv")
    baselines = {"Euclidean", "scaled Euclidean", "one answer"}
    assert set(table.learner) == baselines | {"LFDA", "RCA_Supervised"}
    told = json.loads(run("compare", "train.csv", "--target", "kind", *options, "--json").stdout)
    assert [row["score"] for row in told["rows"]] == pytest.approx(list(table.score))
    assert told["data"]["missing"] == {"length": 8, "colour": 3}
    numbers = run(
        "compare", "train.csv", "--target", "weight", "--learner", "mlkr", "--time-limit", 0
    )
    assert "R² of 5 neighbours: 80 points, continuous labels" in numbers.stdout
    assert "MLKR: no time left" in numbers.stdout


def test_a_model_encodes_new_rows_as_those_of_fit(files):
    told = json.loads(fit("--drop", "weight", "--json").stdout)
    assert told["n_features"] == 8  # of 2 numbers, 4 colours and 2 with gaps
    mapped = pd.read_csv("test.csv")
    train = files[:80][files[:80].kind.notna()].drop(columns=["name", "kind", "weight"])
    encoder = TableEncoder().fit(train)
    names = ["length", "length=missing", "width", "colour=b", "colour=g", "colour=r"]
    assert list(encoder.get_feature_names_out()) == [*names, "colour=white", "colour=missing"]
    points = encoder.transform(mapped)
    if told["standardised"]:
        known = encoder.transform(train)
        points = (points - known.mean(0)) / np.where(known.std(0) == 0, 1, known.std(0))
    expected = metricfast.load("model.safetensors").transform(points)
    run("transform", "model.safetensors", "test.csv", "-o", "out.npz", "--keep", "kind")
    with np.load("out.npz") as saved:
        np.testing.assert_allclose(saved["X"], expected, rtol=1e-9, atol=1e-12)
        assert list(saved["kind"]) == list(mapped.kind)
    run("transform", "model.safetensors", "test.csv", "-o", "out.parquet")
    printed = run("transform", "model.safetensors", "test.csv").stdout.splitlines()
    assert len(printed) == 41 == len(pd.read_parquet("out.parquet")) + 1
    assert printed[0].startswith("lfda0,lfda1")
    rows = json.loads(run("transform", "model.safetensors", "test.csv", "--json").stdout)
    np.testing.assert_allclose(rows["lfda0"], expected[:, 0], rtol=1e-9, atol=1e-12)


def test_neighbors(files):
    fit()
    args = ("neighbors", "model.safetensors", "test.csv", "-k", 2)
    run(*args, "--database", "train.csv", "--show", "kind", "-o", "near.csv")
    near = pd.read_csv("near.csv", keep_default_na=False)
    assert list(near.columns) == ["row", "rank", "neighbor", "distance", "kind"]
    assert (np.diff(near.distance)[::2] >= 0).all()
    right = near.kind.to_numpy() == files.kind[80:].to_numpy()[near.row]
    assert right.mean() > 0.8
    own = json.loads(run(*args, "--json").stdout)
    assert all(i not in found for i, found in enumerate(own["neighbors"]))
    assert run(*args).stdout.startswith("row,rank,neighbor,distance\n0,1,")


def test_evaluate(files):
    fit("--drop", "weight")
    result = run("evaluate", "model.safetensors", "test.csv", "--database", "train.csv")
    assert "accuracy of 5 neighbours, 40 rows" in result.stdout
    told = json.loads(run("evaluate", "model.safetensors", "train.csv", "--json").stdout)
    assert told["fitted_to_these_rows"]
    assert told["rows"] == 79
    assert told["learned"]["interval"][0] < told["learned"]["score"] <= 1
    assert "flatters" in run("evaluate", "model.safetensors", "train.csv").stderr
    fit("--set", "n_components=2", target="weight", learner="mlkr")
    assert "R² of 5 neighbours" in run("evaluate", "model.safetensors", "test.csv").stdout


def test_predict(files):
    fit("--drop", "weight")
    args = ("predict", "model.safetensors", "test.csv", "--database", "train.csv")
    test = files[80:].drop(columns="kind")
    test.to_csv("test.csv", index=False)
    result = run(*args, "-k", 3, "--weights", "distance", "--proba", "--keep", "name")
    assert "train.csv: 1 rows without kind are left out" in result.stderr
    found = pd.read_csv(StringIO(result.stdout))
    shares = ["share_iris", "share_lily", "share_rose"]
    assert list(found.columns) == ["name", "predicted_kind", *shares]
    assert list(found.name) == list(test.name)
    assert (found.predicted_kind == files.kind[80:].to_numpy()).mean() > 0.8

    run("transform", "model.safetensors", "train.csv", "-o", "train.npz", "--keep", "kind")
    run("transform", "model.safetensors", "test.csv", "-o", "test.npz")
    with np.load("train.npz") as train, np.load("test.npz") as queries:
        known = train["kind"] != "nan"
        votes = KNeighborsClassifier(3, weights="distance").fit(
            train["X"][known], train["kind"][known]
        )
        np.testing.assert_array_equal(found.predicted_kind, votes.predict(queries["X"]))
        np.testing.assert_allclose(found[shares], votes.predict_proba(queries["X"]), atol=1e-9)
    told = json.loads(run(*args, "--json").stdout)
    assert set(told) == {"predicted_kind"} and len(told["predicted_kind"]) == 40


def test_predict_numbers(files):
    fit("--set", "n_components=2", target="weight", learner="mlkr")
    args = ("predict", "model.safetensors", "test.csv", "--database", "train.csv")
    run(*args, "--keep", "weight", "-o", "out.csv")
    out = pd.read_csv("out.csv")
    assert np.corrcoef(out.weight, out.predicted_weight)[0, 1] > 0.8
    assert "no classes" in run(*args, "--proba", code=2).stderr
    assert "no column 'wight'" in run(*args, "--target", "wight", code=1).stderr


def test_inspect(files):
    fit("--set", "n_components=1")
    printed = run("inspect", "model.safetensors").stdout
    assert "LFDA" in printed and "4 categories" in printed and "missing values" in printed
    told = json.loads(run("inspect", "model.safetensors", "--json").stdout)
    assert told["parameters"] == {"n_components": 1}
    assert sum(told["relevance"].values()) == pytest.approx(1)
    assert told["columns"][0]["name"] == "length"


def test_models_of_tables_are_inspected_and_evaluated(files):
    frame = files.dropna()[["length", "width", "kind"]]
    model = metricfast.NCAClassifier(n_estimators=1, periodic=False, max_epochs=5, random_state=0)
    model.fit(frame[["length", "width"]], frame["kind"])
    metricfast.save(model, "table.safetensors")
    frame.to_csv("table.csv", index=False)
    told = json.loads(run("inspect", "table.safetensors", "--json").stdout)
    expected = dict(zip(["length", "width"], model.relevance_, strict=True))
    assert told["relevance"] == expected
    assert "learned" in run("evaluate", "table.safetensors", "table.csv", "--target", "kind").stdout


def test_inspect_of_embeddings(files):
    fit(target="weight", learner="log-ratio-learner")
    told = json.loads(run("inspect", "model.safetensors", "--json").stdout)
    loaded = metricfast.load("model.safetensors")
    mapped, _ = loaded.embedding_.forward(loaded.parameters_, np.eye(loaded.n_features_in_))
    shares = np.square(mapped).sum(1)
    expected = np.sort(shares / shares.sum())[::-1]
    np.testing.assert_allclose(list(told["relevance"].values()), expected, rtol=1e-9)
    assert "length" in run("inspect", "model.safetensors").stdout.partition("share of dist")[2]
    fit("--set", "hidden_layer_sizes=[4]", target="weight", learner="log-ratio-learner")
    printed = run("inspect", "model.safetensors").stdout
    assert "LogRatioLearner has no linear map" in printed and "share of dist" not in printed


def test_a_training_of_a_single_iteration_is_reported(files):
    soon = ("--set", "min_iter=0", "--set", "convergence_tol=1000")
    result = fit(*soon, "--set", "early_stopping=false", learner="lmnn")
    assert ", 1 iteration: " in result.stdout
    assert "note: training stopped after 1 iteration" in result.stderr
    result = fit(*soon, learner="lmnn")
    assert "1 iteration, by early stopping or convergence" in result.stderr
    result = fit("--set", "early_stopping=false", learner="lmnn")
    assert "iterations: " in result.stdout and "note: " not in result.stderr


def test_a_small_p_value_is_no_zero(files):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 30)) * 9).rename(columns=str)
    table["30"] = np.repeat([0.0, 1.0], 100) + rng.normal(size=200) / 10
    table["kind"] = np.repeat(["u", "v"], 100)
    table.to_csv("train.csv", index=False)
    fit("--scale", "no")
    assert ", p <.001" in run("evaluate", "model.safetensors", "train.csv").stdout


def test_models_of_metricfast_are_read_too(files):
    X = files[["length", "width"]].fillna(0)
    metricfast.save(metricfast.Covariance().fit(X), "plain.safetensors")
    run("transform", "plain.safetensors", "test.csv", "-o", "out.npz")
    with np.load("out.npz") as saved:
        expected = metricfast.load("plain.safetensors").transform(X[80:])
        np.testing.assert_allclose(saved["X"], expected)
    assert "table" not in run("inspect", "plain.safetensors").stdout
    np.savez("xy.npz", X=X.to_numpy(), y=np.arange(120) % 2)
    run("fit", "xy.npz", "--target", "y", "--learner", "gmml", "-o", "xy.safetensors")
    run("evaluate", "xy.safetensors", "xy.npz")


def test_unseen_categories_and_dates(files):
    fit("--categorical", "name")
    assert "40 values of name" in run("transform", "model.safetensors", "test.csv").stderr
    days = pd.DataFrame({"day": pd.to_datetime(["1970-01-02", None], utc=True), "n": [1, 2]})
    encoder = TableEncoder(["n"]).fit(days)
    np.testing.assert_allclose(encoder.transform(days), [[1, 0, 1, 0], [1, 1, 0, 1]])
    many = pd.DataFrame({"c": np.r_[np.repeat(np.arange(255), 2), 300].astype(str)})
    encoder = TableEncoder.of(json.loads(json.dumps(TableEncoder().fit(many).state())))
    assert encoder.transform(many).sum(0).tolist() == [2] * 255 + [1]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("compare train.csv --target knd", 1, "has no column 'knd': did you mean 'kind'?"),
        ("compare train.csv", 2, "Missing option '--target'"),
        ("compare none.csv --target kind", 2, "does not exist"),
        ("compare train.csv --target kind --learner lmn", 2, "'lmn' is none of"),
        ("fit train.csv --target kind --learner lfda -o m --set k", 2, "must be name=value"),
        ("fit train.csv --target kind --learner mlkr -o m.safetensors", 1, "y must hold numbers"),
        ("fit notes.txt --target kind --learner lfda -o m", 1, "must be a file in .csv"),
        ("fit damaged.npz --target kind --learner lfda -o m", 1, "cannot be read as .npz"),
        ("fit empty.csv --target kind --learner lfda -o m", 1, "has no rows"),
        ("fit train.csv --target name --learner lfda -o m", 1, "y must hold a class"),
        ("transform train.csv test.csv", 1, "safetensors"),
        ("transform model.safetensors less.csv", 1, "lacks the columns 'colour'"),
        ("transform model.safetensors text.csv", 1, "'width' must hold numbers"),
        ("neighbors model.safetensors test.csv -k 1000", 1, "n_neighbors"),
        ("evaluate model.safetensors less.csv", 1, "lacks the columns"),
        ("predict model.safetensors test.csv", 2, "Missing option '--database'"),
        ("predict model.safetensors less.csv --database train.csv", 1, "lacks the columns"),
        ("fit train.csv --target kind --learner nca-classifier -o m", 2, "--learner nca`, then"),
        ("fit train.csv --target kind --learner NCARegressor -o m", 2, "model file does not hold"),
        ("fit train.csv --target kind --learner lmn -o m", 2, "'lmn' is none of"),
        (
            "fit train.csv --target weight --learner lmnn -o m",
            1,
            "LMNN learns from classes",
        ),
        ("compare train.csv --target weight --learner lmnn", 1, "train.csv, 80 rows, target 'wei"),
        ("compare five.csv --target kind", 1, "five.csv, 5 rows, target 'kind': cv=5 folds need 5"),
        ("compare five.csv --target kind --cv 2", 1, "n_neighbors=5 must be at most 2"),
        ("compare five.csv --target weight --cv 6", 1, "cv=6 folds need 6 points, y has 5"),
        ("bench", 1, "checkout of the sources"),
        ("learn", 2, "No such command 'learn'"),
    ],
)
def test_errors_are_helpful(files, arguments, code, message):
    fit("--drop", "weight")
    pd.DataFrame({"length": [1], "width": [2]}).to_csv("less.csv")
    pd.DataFrame({"length": [1], "width": ["x"], "colour": ["r"]}).to_csv("text.csv")
    pd.DataFrame({"kind": []}).to_csv("empty.csv")
    files[10:15].assign(kind=list("uuvvv")).to_csv("five.csv", index=False)
    Path("damaged.npz").write_text("PK")
    Path("notes.txt").write_text("notes")
    assert message in " ".join(run(*arguments.split(), code=code).stderr.split())


def test_ctrl_c_prints_what_was_done_and_exits_with_130(files, monkeypatch):
    def interrupt(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(metricfast.LMNN, "fit", interrupt)
    options = ("--target", "kind", "--learner", "lfda", "--learner", "lmnn")
    result = run("compare", "train.csv", *options, code=130)
    assert "LFDA" in result.stdout and "interrupted" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    assert "_METRICFAST_COMPLETE" in run("completion", shell).stdout


def test_learners_are_completed(monkeypatch, capsys):
    monkeypatch.setenv("_METRICFAST_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "metricfast fit --learner lm")
    monkeypatch.setenv("COMP_CWORD", "3")
    main([])
    assert "lmnn" in capsys.readouterr().out


@pytest.mark.parametrize("package", ["click", "rich", "pandas"])
def test_without_a_package_it_is_said_what_to_install(monkeypatch, capsys, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["fit", "data.csv", "--target", "y"]) == 1
    told = capsys.readouterr().err
    assert package in told and "pip install " in told
    assert main(["info"]) == 0
    assert "version: " in capsys.readouterr().out


def test_the_program_runs():
    command = [sys.executable, "-m", "metricfast", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("metricfast ")
