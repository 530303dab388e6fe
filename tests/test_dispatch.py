"""The choice of the compiled module, its content, and its type stubs."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from new_process import run

import metricfast
from metricfast._core import dispatch as _dispatch
from metricfast._core.dispatch import get_kernels

LIBRARIES = Path(metricfast.get_library_dir())
BUILT = metricfast.build_info()
REPORT_ISA = "import metricfast; print(metricfast.build_info()['isa'])"


def test_build_info() -> None:
    info = metricfast.build_info()
    assert info["version"] == metricfast.__version__
    assert info["isa"] in info["available_isas"]
    assert re.match(r"(GCC|Clang|MSVC) \d+", info["compiler"])
    assert tuple(map(int, info["eigen"].split("."))) >= (3, 4)
    assert info["threads"] >= 1


@pytest.mark.parametrize("isa", _dispatch.available_isas())
def test_override(isa: str) -> None:
    assert run(REPORT_ISA, check=False, METRICFAST_ISA=isa).stdout.strip() == isa


def test_best_level_is_the_default() -> None:
    # an empty variable is an unset one
    assert (
        run(REPORT_ISA, check=False, METRICFAST_ISA="").stdout.strip()
        == _dispatch.available_isas()[-1]
    )


@pytest.mark.parametrize("isa", ["v9", "AVX2", "base"])
def test_override_that_cannot_be_followed(isa: str) -> None:
    result = run(REPORT_ISA, check=False, METRICFAST_ISA=isa)
    assert result.returncode != 0
    available = ", ".join(_dispatch.available_isas())
    assert f"ImportError: METRICFAST_ISA is '{isa}', which" in result.stderr
    assert f"available: {available}\n" in result.stderr


def import_beside(folder: Path, levels: list[str], isa: str = "") -> str:
    """Run a copy of the module next to files with these names; return its result or error."""
    (folder / "lib").mkdir()
    module = Path(get_kernels().__file__)
    shutil.copy(module, folder)
    suffix = next(LIBRARIES.glob("libmetricfast_*")).suffix
    for level in levels:
        (folder / "lib" / f"libmetricfast_{level}{suffix}").write_text("no library")
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import _kernels\n"
    code += "print(_kernels.available_isas()); _kernels.load()"
    found = run(code, check=False, METRICFAST_ISA=isa)
    return found.stdout + found.stderr


def test_levels_are_files_beside_the_module(tmp_path: Path) -> None:
    best = BUILT["available_isas"][-1]
    said = import_beside(tmp_path, [best])
    assert f"['{best}']" in said
    # a broken file is an error
    assert "ImportError" in said and f"libmetricfast_{best}" in said


@pytest.mark.parametrize(("built", "said"), [([], "none"), (["v2"], "v2")])
def test_a_level_that_was_not_built(tmp_path: Path, built: list[str], said: str) -> None:
    message = "ImportError: METRICFAST_ISA is 'v3', which this copy of metricfast was not built for"
    assert f"{message}; available: {said}" in import_beside(tmp_path, built, "v3")


def test_no_level_at_all(tmp_path: Path) -> None:
    message = "metricfast was built for none, none of which this machine supports"
    assert f"ImportError: {message}" in import_beside(tmp_path, [])


@pytest.mark.levels
@pytest.mark.parametrize(
    ("isa", "present", "absent"),
    [("v2", "xmm", "[yz]mm"), ("v3", "ymm", "zmm"), ("v4", "zmm", None)],
)
def test_registers_in_the_compiled_module(isa: str, present: str, absent: str | None) -> None:
    # found, not loaded: this processor may not have the level
    (path,) = LIBRARIES.glob(f"libmetricfast_{isa}.*")
    listing = subprocess.run(
        ["objdump", "--disassemble", path], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(f"%{present}", listing)
    assert absent is None or not re.search(f"%{absent}", listing)


TESTS = [
    *("test_distance.py", "test_neighbors.py", "test_losses.py", "test_softmax_losses.py"),
    *("test_database.py", "test_threads.py", "test_search_metrics.py"),
    *("test_inference.py", "test_metrics.py"),
    "test_embedding_losses.py::test_queries_against_a_database",
]


@pytest.mark.parametrize("isa", [isa for isa in BUILT["available_isas"] if isa != BUILT["isa"]])
def test_level(isa: str) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    result = subprocess.run(
        command,
        cwd=Path(__file__).parent,
        env=os.environ | {"METRICFAST_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-3000:]
    assert " passed" in result.stdout


def test_the_stub_is_of_the_compiled_module(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "packaging")
    stub = importlib.import_module("kernels_stub").stub
    written = Path(metricfast.__file__).parent / "_core" / "kernels.pyi"
    assert written.read_text() == stub(get_kernels()), "run packaging/kernels_stub.py"
