"""The compiled module and what type checkers are told of it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import metricfast
from metricfast._core.dispatch import get_kernels

STUB = Path(metricfast.__file__).parent / "_core" / "kernels.pyi"


def parameters(function: ast.FunctionDef) -> list[str]:
    arguments = function.args
    return [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)][1:]


def test_the_stub_is_of_the_compiled_module():
    tree = ast.parse(STUB.read_text())
    (stub,) = (node for node in tree.body if getattr(node, "name", "") == "Kernels")
    kernels = get_kernels()
    told = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    assert set(told) == {name for name in vars(kernels) if not name.startswith("_")}
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
