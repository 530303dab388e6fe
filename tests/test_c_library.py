"""The C library: errors, threads, and programs that link to it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from c_library import LIBRARY, STATUS, CError, Database, Model, call
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trained import embedding_learner

import metricfast
from metricfast import losses
from metricfast.embeddings import MLP, Asymmetric, Linear, Periodic

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
X, Y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def content(tmp_path_factory) -> bytes:
    """A model file with two embeddings."""
    path = tmp_path_factory.mktemp("c") / "model.safetensors"
    embedding = Asymmetric(Linear(3), MLP((8,), 3, "tanh", normalize=True))
    learner = embedding_learner(metricfast.losses.NCA(), embedding, max_epochs=2)
    metricfast.save(learner.fit(X, Y), path)
    return path.read_bytes()


def test_it_is_of_this_version_and_processor() -> None:
    assert LIBRARY.metricfast_version().decode() == metricfast.__version__
    assert LIBRARY.metricfast_isa().decode() == metricfast.build_info()["isa"]


def test_a_level_that_is_not_there_is_an_error() -> None:
    code = "import c_library as c; c.Model(b'')"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        env=os.environ | {"METRICFAST_ISA": "v9"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (
        "ERROR_PROCESSOR: METRICFAST_ISA is 'v9', which is not an instruction set level"
        in result.stderr
    )


def test_files_that_are_not_models_are_refused(content, path) -> None:
    for size in range(0, len(content), 97):
        with pytest.raises(CError, match="ERROR_MODEL"):
            Model(content[:size])
    for position in range(0, len(content), 31):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position % 8)
        with pytest.raises(CError, match="ERROR_MODEL"):
            Model(bytes(flipped))
    path.write_bytes(content[:-1])
    with pytest.raises(CError, match=f"ERROR_MODEL: {path}: "):
        Model(path)
    for missing in (path.parent / "none", path.parent):
        with pytest.raises(CError, match=rf"ERROR_FILE: .*\[{missing}\]"):
            Model(missing)


def test_arguments_are_checked(content) -> None:
    model = Model(content)
    database = Database(model, X)
    assert (model.learner, model.n_features, model.n_components) == ("EmbeddingLearner", 4, 3)
    assert len(database) == len(X)
    Z, rows = np.empty((150, 3)), np.empty((150, 3), np.int64)
    handle = np.zeros(1, np.int64)
    wrong, far = X.copy(), np.full_like(X, 1.7e308)
    wrong[3, 1] = np.nan
    for name, arguments, message in [
        ("model_load", (None, handle), "path is null"),
        ("model_load", (b"x", None), "the output pointer `model` is null"),
        ("model_parse", (None, 3, handle), "bytes is null"),
        ("transform_f64", (None, 0, X, 150, Z, 0), "the model is null"),
        ("transform_f64", (model.handle, 2, X, 150, Z, 0), "side must be METRICFAST_QUERY or"),
        ("transform_f64", (model.handle, 0, None, 150, Z, 0), "points is null"),
        ("transform_f64", (model.handle, 0, X, 150, None, 0), "embedded is null"),
        ("transform_f64", (model.handle, 0, X, -1, Z, 0), "negative number of"),
        ("transform_f64", (model.handle, 0, wrong, 150, Z, 0), "points contain NaN"),
        ("transform_f64", (model.handle, 0, far, 150, Z, 0), "embedded points overflow"),
        ("pair_score_f64", (model.handle, X, X, 150, None, 0), "scores is null"),
        ("database_create_f64", (model.handle, X, 0, 0, 0, handle), "at least one point"),
        ("database_create_f64", (model.handle, X, 150, 3, 0, handle), "metric must be METRICFAST"),
        (
            "database_create_f64",
            (model.handle, X, 150, 0, 0, None),
            "the output pointer `database` is null",
        ),
        ("database_search_f64", (None, X, 150, 3, None, Z, rows, 0), "the database is null"),
        ("database_search_f64", (database.handle, X, 150, 0, None, Z, rows, 0), "at least 1"),
        ("database_search_f64", (database.handle, X, 150, 151, None, Z, rows, 0), "exceeds"),
        ("database_search_f64", (database.handle, X, 150, 3, None, Z, None, 0), "rows is null"),
    ]:
        with pytest.raises(CError, match=f"ERROR_ARGUMENT: .*{message}"):
            call(name, *arguments)
    assert handle[0] == 0
    call("transform_f64", model.handle, 0, None, 0, None, 0)
    LIBRARY.metricfast_model_free(None)
    LIBRARY.metricfast_database_free(None)
    assert LIBRARY.metricfast_model_learner(None) is None
    assert LIBRARY.metricfast_database_n_points(None) == 0


def test_no_queries_have_no_neighbours(content, path) -> None:
    metricfast.save(metricfast.LFDA(n_components=2).fit(X, Y), path)
    for model in (Model(content), Model(path)):
        assert [found.shape for found in Database(model, X).kneighbors(X[:0], 3)] == [(0, 3)] * 2


def test_filters_are_those_of_python(content, path) -> None:
    metricfast.save(metricfast.LFDA(n_components=2, shrinkage=0.1).fit(X, Y), path)
    mask, labels, own = np.arange(150) % 3 == 0, np.arange(150) // 10, np.arange(150)
    mask[:80] = False
    pair = {"query_labels": labels, "labels": labels}
    for model in (Model(content), Model(path)):
        database = Database(model, X)
        Z = [model.transform(X, side) for side in (0, 1)]
        for given, where in (({"rows": mask}, mask), (pair, (labels, labels))):
            found = database.kneighbors(X, 30, exclude=own, **given)
            expected = metricfast.kneighbors(*Z, 30, exclude=own, where=where)
            np.testing.assert_array_equal(found[1], expected[1])
            np.testing.assert_allclose(found[0], expected[0], atol=1e-7)
        assert (database.kneighbors(X, 30, rows=mask)[1][:, 23:] == -1).all()
        with pytest.raises(CError, match=r"ERROR_ARGUMENT: .*labels must have one entry per query"):
            database.kneighbors(X, 3, labels=labels)


PERIODIC = embedding_learner(losses.NCA(), Periodic(2, scale=0.1, n_passthrough=1), max_epochs=1)


@pytest.mark.parametrize(
    "steps",
    [
        [metricfast.LFDA(n_components=2)],
        [PERIODIC],
        [StandardScaler(), metricfast.LFDA(n_components=2)],
    ],
    ids=["linear", "periodic", "two scalers"],
)
def test_a_pipeline_is_its_map_of_unscaled_points(steps, path) -> None:
    pipeline = make_pipeline(StandardScaler(), *steps).fit(X, Y)
    metricfast.save(pipeline, path)
    model, learner = Model(path), pipeline[-1]
    assert model.learner == type(learner).__name__
    Z = pipeline.transform(X)
    np.testing.assert_allclose(model.transform(X), Z, rtol=1e-9, atol=1e-9)
    distances, _ = Database(model, X).kneighbors(X, 3)
    np.testing.assert_allclose(distances, metricfast.kneighbors(Z, Z, 3)[0], atol=1e-6)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_a_scaler_that_divides_by_no_positive_number_is_refused(scale, path) -> None:
    pipeline = make_pipeline(StandardScaler(), metricfast.LFDA(n_components=2)).fit(X, Y)
    pipeline[0].scale_[1] = scale
    metricfast.save(pipeline, path)
    with pytest.raises(CError, match="scaler does not fit"):
        Model(path)


def test_many_threads_share_a_model_and_a_database(content) -> None:
    model = Model(content)
    database = Database(model, X)
    expected = database.kneighbors(X, 4, exclude=np.arange(150))
    assert not (expected[1] == np.arange(150)[:, None]).any()

    def work(number: int) -> str:
        for _ in range(20):
            found = database.kneighbors(X, 4, 1 + number % 2, exclude=np.arange(150))
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
            wrong = STATUS[LIBRARY.metricfast_model_load(f"none{number}".encode(), None)]
            with pytest.raises(CError, match=rf"\[none{number}\]"):
                Model(Path(f"none{number}"))
        return wrong

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(work, range(8))) == {"ERROR_ARGUMENT"}


def test_a_database_outlives_its_model(content) -> None:
    model = Model(content)
    expected = Database(model, X).kneighbors(X, 2)
    database = Database(model, X)
    del model
    np.testing.assert_array_equal(database.kneighbors(X, 2), expected)


def block(heading: str, language: str) -> str:
    """Return the first code block of a language in a section of the page on models."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.search(rf"^ *```{language}\n(.*?)^ *```$", section, re.MULTILINE | re.DOTALL)[1]


def run(command: str, directory: Path) -> list[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        ["sh", "-ec", command],
        cwd=directory,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.split()


@pytest.fixture
def iris(tmp_path, monkeypatch):
    """The model of the page, and the expected output of the programs below."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(re.search(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1], names)
    flowers = np.array([[5.1, 3.5, 1.4, 0.2], [6.2, 2.9, 4.3, 1.3], [6.3, 3.3, 6.0, 2.5]])
    query = np.array([[6.0, 3.0, 5.0, 1.8]])
    nearest = metricfast.NearestNeighbors(n_neighbors=2, metric=names["learner"]).fit(flowers)
    distances, rows = nearest.kneighbors(query)
    said = [f"{row}:{distance:.4f}" for row, distance in zip(rows[0], distances[0], strict=True)]
    return tmp_path, said


@pytest.mark.skipif(shutil.which("cc") is None, reason="no cc in PATH")
def test_the_program_in_c(iris) -> None:
    directory, expected = iris
    (directory / "main.c").write_text(block("In C and other languages", "c"))
    command = block("In C and other languages", "sh")
    strict = "cc -std=c99 -Wall -Wextra -Wpedantic -Wconversion -Werror "
    command = command.replace("cc ", strict, 1)
    assert run(command, directory) == expected
    excluding = re.search(r"^  ```c\n(.*?)^  ```$", PAGE, re.MULTILINE | re.DOTALL)[1]
    program = block("In C and other languages", "c").replace(
        "    if (failed)", excluding + "if (failed)"
    )
    (directory / "main.c").write_text(program)
    assert [found[0] for found in run(command, directory)] == ["2", "0"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no cc in PATH")
def test_the_program_in_c_by_cmake_without_eigen(iris) -> None:
    directory, expected = iris
    (directory / "main.c").write_text(block("In C and other languages", "c"))
    lines = [
        "cmake_minimum_required(VERSION 3.21)",
        "project(serve LANGUAGES C)",
        block("In C and other languages", "cmake"),
    ]
    (directory / "CMakeLists.txt").write_text("\n".join(lines))
    found = f"-Dmetricfast_DIR={metricfast.get_cmake_dir()} -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON"
    run(f"cmake -G Ninja -B build {found} && cmake --build build", directory)
    assert run("build/serve", directory) == expected


@pytest.mark.skipif(shutil.which("rustc") is None, reason="no rustc in PATH")
def test_the_program_in_rust(iris) -> None:
    directory, expected = iris
    shutil.copy(ROOT / "examples" / "rust" / "serve.rs", directory)
    folder = metricfast.get_library_dir()
    link = f"-L native='{folder}' -l metricfast -C link-arg=-Wl,-rpath,'{folder}'"
    run(f"rustc --edition 2021 -D warnings {link} serve.rs", directory)
    assert run("./serve iris.safetensors", directory) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_within_a_radius_are_those_of_python(content, path, dtype) -> None:
    path.write_bytes(content)
    learner = metricfast.load(path)
    database = Database(Model(content), X.astype(dtype))
    Z = learner.transform(X.astype(dtype), side="database").astype(dtype)
    queries = learner.transform(X[::7].astype(dtype), side="query").astype(dtype)
    exclude = np.arange(0, len(X), 7)
    distances, rows, starts = database.radius_neighbors(X[::7].astype(dtype), 1.0, exclude=exclude)
    expected = metricfast.neighbors.radius_neighbors(
        queries, Z, 1.0, exclude=exclude, sort_results=True
    )
    assert len(rows) > 100
    np.testing.assert_allclose(distances, expected[0], rtol=1e-5)
    np.testing.assert_array_equal(rows, expected[1])
    np.testing.assert_array_equal(starts, expected[2])
    with pytest.raises(CError, match=r"ERROR_ARGUMENT: .*radius must be finite"):
        database.radius_neighbors(X[:1], -1.0)


@pytest.mark.parametrize("ties", range(4))
def test_inference_is_that_of_python(content, path, ties) -> None:
    path.write_bytes(content)
    learner = metricfast.load(path)
    database = Database(Model(content), X)
    Z, queries = (
        learner.transform(points, side=side)
        for points, side in ((X, "database"), (X[::3], "query"))
    )
    name = ("pessimistic", "optimistic", "label", "nearest")[ties]
    wrong = (Y[::3] + 1) % 3
    votes = {"query_labels": wrong, "database_labels": Y, "n_classes": 3, "ties": ties}
    found = database.infer(X[::3], 5, **votes)
    expected = metricfast.inference.both(queries, Z, wrong, Y, 5, ties=name)
    for sets, same in zip(found, expected, strict=True):
        np.testing.assert_array_equal(sets["rows"], same.indices)
        np.testing.assert_array_equal(sets["feasible"], same.feasible)
        np.testing.assert_allclose(sets["values"], same.values)
        np.testing.assert_allclose(sets["costs"], same.delta)
    with pytest.raises(CError, match="ERROR_ARGUMENT: n_neighbors must be from 1"):
        database.infer(X[:1], 151, **votes)


def test_cosines_and_inner_products(path) -> None:
    learner = metricfast.LFDA(2).fit(X, Y)
    metricfast.save(learner, path)
    queries = X[:20] + 0.25
    for number, metric in enumerate(("euclidean", "cosine", "inner_product")):
        found = Database(Model(path), X, number).kneighbors(queries, 5)
        expected = metricfast.kneighbors(queries, X, 5, metric=metric, L=learner.components_)
        np.testing.assert_array_equal(found[1], expected[1])
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-12)


def test_a_bilinear_similarity_is_searched_by_inner_products(path) -> None:
    learner = metricfast.OASIS_Supervised(max_iter=50, random_state=0).fit(X, Y)
    metricfast.save(learner, path)
    W = learner.bilinear_
    found = Database(Model(path), X, 2).kneighbors(X[:20], 5)
    expected = metricfast.kneighbors(X[:20], X, 5, metric="inner_product", M=W)
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
