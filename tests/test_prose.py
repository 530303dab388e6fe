"""Words and openings of sentences that stop readers of README, pages, examples and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import metricfast

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
]
CODE = re.compile(
    r"^ *```.*?^ *```$|^ *>>> .*(?:\n *\.\.\. .*)*|``[^`]*``|`[^`\n]*`|\$\$?[^$]*\$", re.M | re.S
)
OPENING = re.compile(r"(?:(?<=[.!?:] )|(?<=\n\n)|(?<=\A))(?:As of|Of|Where|What)\b(?![^.\n]*\?)")
WORD = re.compile(
    r"\b(?:told|tells?|serves?|votes|at hand|as of|that of|those of|made ready|beside"
    r"|of one's own)\b",
    re.IGNORECASE,
)


def findings(text: str) -> list[str]:
    """Return banned openings and words outside of code, each with the words after it."""
    text = CODE.sub("x", re.sub(r"\]\([^)]*\)", "]", text))
    found = [*OPENING.finditer(text), *WORD.finditer(text)]
    return [" ".join(text[match.start() : match.start() + 50].split()) for match in found]


def public_docstrings():
    """Yield the docstrings of public functions, classes and their methods, each once."""
    modules = [getattr(metricfast, name) for name in metricfast.__all__]
    modules = [metricfast, *(value for value in modules if inspect.ismodule(value))]
    values = {id(v): v for m in modules for v in (getattr(m, name) for name in m.__all__)}
    for value in values.values():
        members = vars(value).items() if inspect.isclass(value) else ()
        for each in [value, *(member for name, member in members if not name.startswith("_"))]:
            if inspect.isclass(each) or inspect.isroutine(each) or isinstance(each, property):
                yield inspect.getdoc(each) or ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_of_pages_name_things(page):
    found = findings(page.read_text(encoding="utf-8"))
    assert found == [], f"write these in another way: {found}"


def test_sentences_of_public_docstrings_name_things():
    found = [each for text in public_docstrings() for each in findings(text)]
    assert found == [], f"write these in another way: {found}"


def test_sentences_of_examples_name_things():
    examples = sorted((ROOT / "examples").rglob("*.py"))
    texts = [ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) for file in examples]
    found = [each for text in texts for each in findings(text or "")]
    assert found == [], f"write these in another way: {found}"


def test_banned_openings_and_words_are_found_outside_of_code():
    assert len(findings("Where it is sparse, x.\n\nA page. Of these, one tells it.")) == 3
    assert findings("Where is it? `votes`\n\n```python\nbeside\n```\n") == []
