"""Pages that follow from the code: one for each public name, and the project's files."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import metricfast

# Where a name of the package comes from, and under which heading it stands.
_MAPS = ("nca", "lmnn", "mlkr", "mcml", "ldml", "ncmml")
GROUPS = {
    **{f"learners.{name}": "Learners of a linear map" for name in _MAPS},
    "learners.closed": "Learners in closed form",
    "learners.tuples": "Learners from pairs, triplets and quadruplets",
    "learners.embedding": "Learners of any embedding",
    "learners.gerrymandering": "Learners from votes of neighbours",
    "learners.kernel": "Learners after a kernel",
    "predictors": "Neighbours, classes and values",
    "distances": "Distances and searches",
    "learners.base": "Base classes",
    "": "Other names of the package",
}


# Files of the project, and their pages.
COPIES = {
    "CONTRIBUTING": "project/contributing",
    "CHANGELOG": "project/changelog",
    "SECURITY": "project/security",
    "benchmarks/README": "project/benchmarks",
    "benchmarks/DATA": "project/data",
    "benchmarks/dimension": "project/dimension",
    "benchmarks/poses": "project/poses",
    "benchmarks/large": "project/large",
    "benchmarks/gerrymandering": "project/gerrymandering",
    "benchmarks/tabular": "project/tabular",
}


class Name(NamedTuple):
    """A public name: where it is, what it is, and the page that explains it."""

    path: str
    value: Any
    page: str


def public_modules() -> list[Any]:
    """Return the package and its public modules, those of optional packages too."""
    from sphinx.ext.autodoc.mock import mock

    with mock(["torch"] if importlib.util.find_spec("torch") is None else []):
        found = [importlib.import_module(f"metricfast.{name}") for name in metricfast._SUBMODULES]
    return [metricfast, *found]


def public_names(modules: list[Any]) -> dict[str, list[Name]]:
    """Return the public names of each module; what has two names has one page."""
    pages: dict[int, str] = {}
    found: dict[str, list[Name]] = {}
    for module in modules:
        found[module.__name__] = names = []
        for name in module.__all__:
            value, path = getattr(module, name), f"{module.__name__}.{name}"
            if inspect.isclass(value) or callable(value):
                names.append(Name(path, value, pages.setdefault(id(value), path)))
    return found


def write(root: Path) -> None:
    """Write what follows from the code, and copies of the project's files with their links."""
    for path, text in reference(public_names(public_modules())):
        _write(root / "docs" / "reference" / f"{path}.rst", text)
    for path, page in COPIES.items():
        text = (root / f"{path}.md").read_text(encoding="utf-8")
        folder = f"../../{path}".rpartition("/")[0]
        text = re.sub(r"\]\((?!https?:|#)([^)]*)", rf"]({folder}/\1", text)
        _write(root / "docs" / f"{page}.md", text.replace("/benchmarks/../", "/"))


def reference(modules: dict[str, list[Name]]) -> Iterator[tuple[str, str]]:
    """Yield name and text of all pages of the reference."""
    for names in modules.values():
        for name in names:
            if name.path == name.page:
                yield name.path, _page(name)
    for module, names in modules.items():
        if module != "metricfast":
            about = f".. automodule:: {module}\n   :no-members:\n\n"
            yield module, _title(module) + about + _table(names)
    yield "index", _index(modules)


def _index(modules: dict[str, list[Name]]) -> str:
    text = _title("Reference") + "Every public class and function, from its docstring.\n\n"
    groups: dict[str, list[Name]] = {title: [] for title in GROUPS.values()}
    for name in modules["metricfast"]:
        room = name.value.__module__.removeprefix("metricfast.")
        groups[next(t for start, t in GROUPS.items() if room.startswith(start))].append(name)
    for title, names in groups.items():
        text += _title(title, "-") + _table(names)
    text += _title("Modules", "-") + ".. toctree::\n   :maxdepth: 1\n\n"
    return text + "".join(f"   {module}\n" for module in sorted(modules) if module != "metricfast")


def _table(names: list[Name]) -> str:
    """Return a table of names with the first sentences of their docstrings."""
    own = [name.path for name in names if name.path == name.page]
    text = ".. list-table::\n   :widths: auto\n\n"
    for name in names:
        first = (inspect.getdoc(name.value) or "").split("\n")[0]
        shown = name.path.removeprefix("metricfast.")
        text += f"   * - :doc:`{shown} <{name.page}>`\n     - {first}\n"
    text += "\n"
    if own:
        text += ".. toctree::\n   :hidden:\n\n" + "".join(f"   {path}\n" for path in own) + "\n"
    return text


def _page(name: Name) -> str:
    text = _title(name.path.removeprefix("metricfast."))
    text += f".. currentmodule:: {name.path.rpartition('.')[0]}\n\n"
    short = name.path.rpartition(".")[2]
    if not inspect.isclass(name.value):
        return text + f".. autofunction:: {short}\n"
    text += f".. autoclass:: {short}{_arguments(name.value)}\n"
    text += "   :members:\n   :inherited-members:\n"
    others = sorted(
        method
        for method in dir(name.value)
        if not method.startswith("_") and _module_of(name.value, method).startswith("sklearn.")
    )
    if others:
        text += "\nFrom scikit-learn: " + ", ".join(f"``{method}``" for method in others) + ".\n"
    return text


def _arguments(value: type) -> str:
    """Return the arguments of a class with a mock among its bases, which Sphinx does not find."""
    if not getattr(value, "__sphinx_mock__", False):
        return ""
    _, *given = inspect.signature(vars(value)["__init__"]).parameters.values()
    return str(inspect.Signature([each.replace(annotation=each.empty) for each in given]))


def _module_of(owner: type, name: str) -> str:
    value = inspect.getattr_static(owner, name)
    return getattr(getattr(value, "fget", value), "__module__", None) or type(value).__module__


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n\n"


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(exist_ok=True)
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.write_text(text, encoding="utf-8")
