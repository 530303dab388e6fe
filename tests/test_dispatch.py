"""Which compiled module is used, what it holds, and what type checkers are told of it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import metricfast
from metricfast._core import dispatch as _dispatch
from metricfast._core.dispatch import get_kernels

LEVELS = ["v2", "v3", "v4"]
REPORT_ISA = "import metricfast; print(metricfast.build_info()['isa'])"


def in_new_process(code: str, isa: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "METRICFAST_ISA": isa},
        capture_output=True,
        text=True,
        check=False,
    )


def test_build_info() -> None:
    info = metricfast.build_info()
    assert info["version"] == metricfast.__version__
    assert info["isa"] in info["available_isas"]
    assert re.match(r"(GCC|Clang|MSVC) \d+", info["compiler"])
    assert tuple(map(int, info["eigen"].split("."))) >= (3, 4)
    assert info["threads"] >= 1


@pytest.mark.parametrize("isa", _dispatch.available_isas())
def test_override(isa: str) -> None:
    assert in_new_process(REPORT_ISA, isa).stdout.strip() == isa


def test_best_level_is_the_default() -> None:
    # an empty variable is an unset one
    assert in_new_process(REPORT_ISA, "").stdout.strip() == _dispatch.available_isas()[-1]


@pytest.mark.parametrize("isa", ["v9", "AVX2", "base"])
def test_override_that_cannot_be_followed(isa: str) -> None:
    result = in_new_process(REPORT_ISA, isa)
    assert result.returncode != 0
    available = ", ".join(_dispatch.available_isas())
    assert f"ImportError: METRICFAST_ISA is '{isa}', which" in result.stderr
    assert f"available: {available}\n" in result.stderr


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """Pretend that some levels were built and that the machine supports some."""

    def pretend(*, built: list[str], supported: list[str]) -> None:
        monkeypatch.setattr(_dispatch, "_built_isas", lambda: built)
        monkeypatch.setattr("metricfast._cpu.supported_levels", lambda: supported)
        monkeypatch.setattr(
            _dispatch, "importlib", type("", (), {"import_module": staticmethod(str)})
        )

    monkeypatch.delenv("METRICFAST_ISA", raising=False)
    _dispatch.get_kernels.cache_clear()
    yield pretend
    _dispatch.get_kernels.cache_clear()


@pytest.mark.parametrize(
    ("built", "supported", "isa"),
    [
        (LEVELS, LEVELS, "v4"),
        (LEVELS, ["v2", "v3"], "v3"),
        (["v2", "v3"], LEVELS, "v3"),
        (["base"], [], "base"),
        (["v3"], LEVELS, "v3"),
    ],
)
def test_choice(machine, built: list[str], supported: list[str], isa: str) -> None:
    machine(built=built, supported=supported)
    assert _dispatch.get_kernels() == f"metricfast._kernels_{isa}"


@pytest.mark.parametrize(
    ("isa", "reason"),
    [("v4", "this processor or operating system does not support"), ("v2", "was not built for")],
)
def test_levels_missing_or_unsupported(
    machine, monkeypatch: pytest.MonkeyPatch, isa: str, reason: str
) -> None:
    machine(built=["v3", "v4"], supported=["v2", "v3"])
    monkeypatch.setenv("METRICFAST_ISA", isa)
    with pytest.raises(ImportError, match=f"METRICFAST_ISA is '{isa}'.*{reason}; available: v3$"):
        _dispatch.get_kernels()


def test_machine_below_all_levels(machine) -> None:
    machine(built=LEVELS, supported=[])
    with pytest.raises(ImportError, match="built for v2, v3, v4, none of which"):
        _dispatch.get_kernels()


def test_broken_module_is_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    best = _dispatch.available_isas()[-1]
    monkeypatch.delenv("METRICFAST_ISA", raising=False)
    monkeypatch.setitem(sys.modules, f"metricfast._kernels_{best}", None)
    monkeypatch.setattr(_dispatch, "_built_isas", lambda: ["v2", best])
    _dispatch.get_kernels.cache_clear()
    with pytest.raises(ImportError, match=f"_kernels_{best}"):
        _dispatch.get_kernels()
    _dispatch.get_kernels.cache_clear()


@pytest.mark.levels
@pytest.mark.parametrize(
    ("isa", "present", "absent"),
    [("v2", "xmm", "[yz]mm"), ("v3", "ymm", "zmm"), ("v4", "zmm", None)],
)
def test_registers_in_the_compiled_module(isa: str, present: str, absent: str | None) -> None:
    # found, not imported: this processor may not have the level
    path = find_spec(f"metricfast._kernels_{isa}").origin
    listing = subprocess.run(
        ["objdump", "--disassemble", path], capture_output=True, text=True, check=True
    ).stdout
    assert re.search(f"%{present}", listing)
    assert absent is None or not re.search(f"%{absent}", listing)


BUILT = metricfast.build_info()
TESTS = [
    *("test_distance.py", "test_neighbors.py", "test_losses.py", "test_softmax_losses.py"),
    *("test_database.py", "test_threads.py"),
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


STUB = Path(metricfast.__file__).parent / "_core" / "kernels.pyi"


def parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)][1:]


def test_the_stub_is_of_the_compiled_module():
    tree = ast.parse(STUB.read_text())
    (stub,) = (node for node in tree.body if getattr(node, "name", "") == "Kernels")
    kernels = get_kernels()
    told = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    functions = {name for name, what in vars(kernels).items() if not isinstance(what, type)}
    assert set(told) == {name for name in functions if not name.startswith("_")}
    for name, function in told.items():
        if function.args.vararg is not None:
            continue
        signature = re.search(r"\((.*)\) ->", getattr(kernels, name).__doc__.splitlines()[0])[1]
        found = re.findall(r"(\w+): ", signature)
        named = [a for a in found if not re.fullmatch(r"arg\d+", a)]
        expected = parameters(function)
        assert len(found) == len(expected), name
        assert named in ([], expected), name
        assert [a.arg for a in function.args.kwonlyargs] == re.findall(
            r"(\w+): ", signature.partition("*, ")[2]
        ), name
