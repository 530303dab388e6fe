"""Content of the installed package, and costs of imports."""

from __future__ import annotations

import re
import zlib
from importlib.metadata import version
from pathlib import Path

import pytest
from new_process import run

import metricfast

ROOT = Path(__file__).parents[1]
HEADERS = ROOT / "src" / "cpp" / "include"


def test_import_is_lazy() -> None:
    output = run("import sys, metricfast; print(*sys.modules)").stdout
    heavy = {"numpy", "scipy", "sklearn", "metricfast._kernels"}
    assert not {name for name in output.split() if name in heavy}


@pytest.mark.parametrize("name", metricfast.__all__)
def test_public_names(name: str) -> None:
    assert name in dir(metricfast)
    assert getattr(metricfast, name) is getattr(metricfast, name)


def test_all_names_can_be_had_without_matplotlib() -> None:
    code = """
import inspect, pydoc, sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Blocked())
import metricfast
from metricfast import *
inspect.getmembers(metricfast)
pydoc.render_doc(metricfast)
print("plotting" in dir(metricfast), "NCA" in globals())
try:
    metricfast.plotting
except ImportError as error:
    print(error)
"""
    assert run(code).stdout.splitlines() == [
        "False True",
        "plotting needs matplotlib: pip install matplotlib",
    ]


def test_dir_lists_public_names_alone() -> None:
    assert dir(metricfast) == sorted(metricfast.__all__)


def test_names_have_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(ROOT / "src"))
    right = [f"metricfast.{name}" for name in metricfast.__all__]
    wrong = ["NCA(n_components='3')", "NCAA", "metrics.recall_at_k([[0]], [0], kk=3)"]
    program = tmp_path / "program.py"
    wrong = [f"metricfast.{expression}" for expression in wrong]
    lines = ["import metricfast", "metricfast.NCA(n_components=3)", *wrong, *right]
    program.write_text("\n".join(lines))
    found = api.run(["--config-file", str(ROOT / "pyproject.toml"), str(program)])[0]
    errors = re.findall(r"py:(\d+): error: (.*?)  \[", found)
    assert [int(line) for line, _ in errors] == [3, 4, 5]
    assert "n_components" in errors[0][1]


def test_learners_are_public() -> None:
    assert set(metricfast.learners.__all__) <= set(metricfast.__all__)


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="module 'metricfast' has no attribute 'nothing'"):
        metricfast.nothing  # noqa: B018


def test_version_is_written_in_one_place() -> None:
    in_header = re.findall(
        r"VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$",
        (HEADERS / "metricfast" / "version.hpp").read_text(),
        re.MULTILINE,
    )
    assert metricfast.__version__ == version("metricfast") == ".".join(in_header)


def test_headers_are_installed() -> None:
    installed = Path(metricfast.get_include())
    assert {p.relative_to(installed) for p in installed.rglob("*.hpp")} == {
        p.relative_to(HEADERS) for p in HEADERS.rglob("*.hpp")
    }
    assert (Path(metricfast.get_cmake_dir()) / "metricfast-config.cmake").is_file()


def test_package_is_small() -> None:
    files = {p for root in metricfast.__path__ for p in Path(root).rglob("*") if p.is_file()}
    shipped = (p for p in files if p.parent.name != "__pycache__")  # not in wheels
    assert sum(len(zlib.compress(p.read_bytes())) for p in shipped) <= 6e6  # as in a wheel


def test_missing_headers_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(metricfast, "__path__", [str(tmp_path)])
    with pytest.raises(FileNotFoundError, match="no include in"):
        metricfast.get_include()
