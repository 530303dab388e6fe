"""What the pages, examples and docstrings show, runs."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import runpy
import sys
from pathlib import Path

import pytest

import metricfast

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
ANCHOR = re.compile(r"\]\(([^)#\s:]*)#([^)]*)\)")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(metricfast.__path__, "metricfast.")
    # metricfast.torch needs PyTorch, as its own tests do
    if not module.name.startswith("metricfast._") and module.name != "metricfast.torch"
]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def page_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_code_on_pages_runs(page):
    """All blocks of a page run in order and share their names, as a reader would type them."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        first_line = text[: block.start(1)].count("\n")
        source = "\n" * first_line + block[1]  # so that a traceback shows the line of the page
        exec(compile(source, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_between_pages_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("https:", "http:")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_into_pages_lead_to_a_heading(page):
    for target, anchor in ANCHOR.findall(page.read_text(encoding="utf-8")):
        text = (page.parent / target if target else page).read_text(encoding="utf-8")
        headings = [
            re.sub(r"[^\w\- ]", "", h.lower()) for h in re.findall(r"^#+ (.*)$", text, re.M)
        ]
        assert anchor in [h.replace(" ", "-") for h in headings], f"{page.name}: {target}#{anchor}"


def test_what_the_page_on_extending_quotes_stands_in_the_files_so():
    text = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    quotes = re.findall(
        r"\]\(\.\./([^)]+)\)(?:(?!\]\(\.\./).)*?^```(?:cpp|pyi?)\n(.*?)^```$",
        text,
        re.MULTILINE | re.DOTALL,
    )
    assert len(quotes) == 6
    for path, quote in quotes:
        file = (ROOT / path).read_text(encoding="utf-8")
        assert " ".join(quote.split()) in " ".join(file.split()), path


def test_every_page_is_linked_from_the_index():
    linked = set(LINK.findall((ROOT / "docs/index.md").read_text(encoding="utf-8")))
    assert {page.name for page in PAGES[1:]} - {"index.md"} <= linked


def marked(example: Path):
    reads = "METRICFAST_DATA" in example.read_text(encoding="utf-8")
    return pytest.param(example, marks=pytest.mark.data if reads else (), id=page_id(example))


@pytest.mark.parametrize("example", [marked(example) for example in EXAMPLES])
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")  # an exit, whatever its status, fails
    assert capsys.readouterr().out


def test_an_example_without_its_data_fails(monkeypatch):
    monkeypatch.setattr("sys.argv", ["poses.py", "missing.npz"])
    with pytest.raises(SystemExit, match=r"no file missing\.npz"):
        runpy.run_path(str(ROOT / "examples/poses.py"), run_name="__main__")


def test_every_example_is_on_the_page_of_uses():
    uses = (ROOT / "docs/uses.md").read_text(encoding="utf-8")
    for example in EXAMPLES:
        assert f"../examples/{example.name}" in uses


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_run(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


def test_public_names_have_an_example():
    missing = [
        name
        for name in metricfast.__all__
        if callable(getattr(metricfast, name)) and ">>>" not in getattr(metricfast, name).__doc__
    ]
    assert missing == []
