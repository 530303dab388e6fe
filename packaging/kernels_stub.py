"""Write the types of the compiled kernels, ``src/metricfast/_core/kernels.pyi``.

They are read from the compiled module, whose signatures follow from the tables of kernels in
``src/cpp/include/metricfast/library``. Run this program after a change of a table.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["stub"]

_TARGET = Path(__file__).parents[1] / "src" / "metricfast" / "_core" / "kernels.pyi"
_HEADER = '''"""The compiled kernels as type checkers see them: a module that `get_kernels` returns.

Written by `packaging/kernels_stub.py`. The function of a loss, such as `nca`, is the function of
this name in `src/cpp/lib/losses.cpp`, which `src/cpp/bindings/bind_losses.cpp` binds.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, overload, type_check_only

from numpy import float64, int64
from numpy.typing import NDArray

A = NDArray[Any]
Ids = NDArray[int64]
Rows = Ids | None
Lists = tuple[Ids, Ids]
Maps = tuple[A | None, A | None]
Frame = tuple[NDArray[float64], float]
# Labels of queries, labels of a database, and whether a search keeps equal labels.
Labels = tuple[Ids, Ids, bool] | None
Filter = tuple[Rows, A | None, Labels]
Totals = tuple[float, int, int, int, int]
'''
_NAMES = {
    r"typing\.SupportsInt \| typing\.SupportsIndex": "int",
    r"typing\.SupportsFloat \| typing\.SupportsIndex": "float",
    r"metricfast\._kernels\.": "",
    r"collections\.abc\.Callable": "Callable[..., Any]",
    r"collections\.abc\.": "",
    r"numpy\.ndarray": "A",
    r"\bobject\b": "Any",
    r"\bdict\b(?!\[)": "dict[str, Any]",
    r"\*args(?!:)": "*settings: Any",
    r"self: \w+": "self",
}


def _signatures(name: str, function: Any) -> list[str]:
    """Return the distinct signatures of a compiled function, as methods."""
    found = re.findall(
        rf"(?m)^(?:\d+\. )?{name}\((?!\*args, \*\*)(.*)\) -> (.*)$", function.__doc__
    )
    methods = []
    for arguments, returned in dict.fromkeys(found):
        listed = arguments if arguments.startswith("self") else f"self, {arguments}".rstrip(", ")
        positional = ", /" if re.search(r"arg\d", listed) and "*args" not in listed else ""
        text = f"{listed}{positional})->{returned}"
        for pattern, replacement in _NAMES.items():
            text = re.sub(pattern, replacement, text)
        listed, result = text.split(")->")
        line = f"    def {name}({listed}) -> {result}: ..."
        if len(line) > 100:
            inner = textwrap.fill(listed, 92, break_long_words=False)
            line = f"    def {name}(\n{textwrap.indent(inner, ' ' * 8)}\n    ) -> {result}: ..."
        methods.append(line)
    return methods


def _protocol(name: str, functions: dict[str, Any]) -> list[str]:
    lines = ["", "@type_check_only", f"class {name}(Protocol):"]
    for each, function in functions.items():
        methods = _signatures(each, function)
        several = len(methods) > 1
        lines += [("    @overload\n" if several else "") + method for method in methods]
    return lines if functions else [*lines[:-1], f"{lines[-1]} ..."]


def stub(module: ModuleType) -> str:
    """Return the text of the stub."""
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    classes = {name: value for name, value in public.items() if isinstance(value, type)}
    lines = [_HEADER.rstrip()]
    for name, value in classes.items():
        lines += _protocol(name, {n: f for n, f in vars(value).items() if not n.startswith("_")})
    functions = {name: value for name, value in public.items() if name not in classes}
    return "\n".join([*lines, *_protocol("Kernels", dict(sorted(functions.items())))]) + "\n"


if __name__ == "__main__":
    import metricfast._kernels as kernels

    _TARGET.write_text(stub(kernels), encoding="utf-8")
