"""The contents of a release: the sdist, and consistency of the conda recipe with pyproject.toml."""

import json
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import venv
from importlib.metadata import distribution
from pathlib import Path

import pytest
import yaml
from scikit_build_core.build import build_sdist
from thinned import thinned

import metricfast

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10: pytest depends on it
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BUILT_BY = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
RECIPE = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
# Packages with another name on conda.
CONDA = {"cmeel-eigen": "eigen", "matplotlib": "matplotlib-base", "torch": "pytorch"}
MADE = re.compile(r"(^|/)(build|__pycache__|gallery|reference|project|results)/|\.(so|pyc)$")


def of_pip(requirements):
    """Convert requirements of pip to the syntax of conda."""
    found = {}
    for requirement in requirements:
        name, least = re.fullmatch(r"([\w-]+)(>=[\d.]+)?", requirement).groups()
        found[CONDA.get(name, name)] = least or ""
    return found


def of_conda(requirements):
    return {name: least for name, _, least in (line.partition(" ") for line in requirements)}


def test_the_recipe_of_conda_asks_for_what_pyproject_does():
    requirements = RECIPE["requirements"]
    assert of_conda(requirements["run"]) == {"python": ""} | of_pip(PROJECT["dependencies"])
    older = PROJECT["requires-python"].replace(">=", "<")
    assert RECIPE["build"]["skip"] == [f'match(python, "{older}")']
    host = of_conda(requirements["host"])
    assert {k: v for k, v in host.items() if k not in ("python", "pip")} == of_pip(BUILT_BY)
    extras = PROJECT["optional-dependencies"]
    users = [extras[name] for name in ("dask", "disk", "io", "onnx", "plot", "torch")]
    wanted = [one for extra in users for one in extra if not one.startswith("metricfast[")]
    assert of_conda(requirements["run_constraints"]) == of_pip(wanted)


def test_the_program_for_fresh_machines_installs_the_build_requirements():
    installed = runpy.run_path(str(ROOT / "run.py"))["BUILD_TOOLS"]
    assert {name.partition(">")[0] for name in BUILT_BY} <= set(installed)


@pytest.fixture
def program(tmp_path):
    """Return a copy of run.py in an empty folder."""
    return shutil.copy(ROOT / "run.py", tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "output"),
    [
        (["--help"], 0, "python3 run.py demo"),
        (["demo", "--help"], 0, "--output FILE.png"),
        (["demo"], 1, "`apt install g++`"),
    ],
)
def test_the_program_for_fresh_machines_answers_before_it_installs(
    program, arguments, code, output, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", "")  # no compiler
    monkeypatch.delenv("CXX", raising=False)
    command = [sys.executable, program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert output in (done.stderr if code else done.stdout)
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("missing", thinned(["pip", "python", "pip/_internal/commands"]))
def test_an_interrupted_environment_is_repaired(program, missing, tmp_path):
    run = runpy.run_path(program)
    venv.create(tmp_path / ".venv", with_pip="/" in missing)
    if missing == "python":
        run["PYTHON"].unlink()
        run["PYTHON"].symlink_to(tmp_path / "none")
    for folder in tmp_path.glob(f".venv/lib/python*/site-packages/{missing}"):
        shutil.rmtree(folder)
    assert not run["has_pip"]()
    run["make_environment"]()
    assert run["has_pip"]()


def test_the_recipe_of_conda_says_the_same_of_the_package():
    assert RECIPE["context"]["version"] == metricfast.__version__
    assert RECIPE["about"]["summary"] == PROJECT["description"]
    assert RECIPE["about"]["license"] == PROJECT["license"]
    (script,) = PROJECT["scripts"].items()
    assert RECIPE["build"]["python"]["entry_points"] == [" = ".join(script)]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sdist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        names = [build_sdist(str(directory / each)) for each in ("first", "second")]
    return [directory / each / name for each, name in zip(("first", "second"), names, strict=True)]


def test_an_sdist_holds_the_sources_and_nothing_that_is_made_of_them(sdist):
    with tarfile.open(sdist[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert not [name for name in names if MADE.search(name)]
    for folder in ("benchmarks", "cmake", "docs", "examples", "packaging", "src", "tests"):
        files = [p.relative_to(ROOT).as_posix() for p in (ROOT / folder).rglob("*") if p.is_file()]
        assert {name for name in files if not MADE.search(name)} <= names
    assert {path.relative_to(ROOT).as_posix() for path in (ROOT / "licenses").iterdir()} <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "run.py"} <= names


def test_two_sdists_are_the_same_to_the_last_byte(sdist):
    first, second = sdist
    assert first.read_bytes() == second.read_bytes()


def test_the_licence_of_pybind11_is_that_of_its_package():
    pytest.importorskip("pybind11")
    (theirs,) = [each for each in distribution("pybind11").files if each.name == "LICENSE"]
    assert (ROOT / "licenses" / "pybind11.txt").read_text() == theirs.locate().read_text()


def test_the_bill_of_materials_names_what_is_compiled_in():
    """By PEP 770, in the metadata of the package."""
    installed = distribution("metricfast")
    bill = installed.read_text("sboms/metricfast.cdx.json")
    if bill is None:
        pytest.skip("this installation has no bill of materials: install again")
    versions = {each["name"]: each["version"] for each in json.loads(bill)["components"]}
    assert versions.keys() == {"eigen", "pybind11"}
    assert versions["eigen"] == metricfast.build_info()["eigen"]
    assert re.match(r"\d+\.\d+", versions["pybind11"])
    for path in (ROOT / "licenses").iterdir():
        assert installed.read_text(f"licenses/licenses/{path.name}") == path.read_text()


@pytest.mark.parametrize("form", ["bug", "data", "question"])
def test_forms_of_issues_have_fields(form):
    found = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{form}.yml").read_text())
    assert found.keys() == {"name", "description", "labels", "body"}
    for field in found["body"]:
        assert field["type"] in ("input", "textarea") and field["attributes"]["label"]
    assert len({field["id"] for field in found["body"]}) == len(found["body"])


@pytest.mark.parametrize(
    "path", list((ROOT / ".github").glob("workflows/*")), ids=lambda path: path.name
)
def test_workflows_pin_actions_by_commit_and_may_only_read_by_default(path):
    text = path.read_text()
    for action in re.findall(r"uses: (.+)", text):
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v[\d.]+", action)
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert workflow["jobs"]
