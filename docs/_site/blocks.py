"""Run the blocks of a page in order, and compare or write what they print and draw.

python docs/_site/blocks.py docs/retrieval.md ...

writes output and pictures into these pages, and the figures of the demo into README.md and
docs/index.md; where "..." stood for what differs from run to run, and more has changed, write it
again. Tests and the site run the same blocks and fail if the output differs.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"^```python\n(?P<source>.*?)^```$"
    r"(?:\n\n```text\n(?P<text>.*?)^```$)?"
    r"(?:\n\n!\[[^\]]*\]\((?P<picture>img/drawn/[^)]+)\))?",
    re.MULTILINE | re.DOTALL,
)
GAIN = re.compile(r"^   (\S+) 0(\.\d+)  ->  (\S+) 0(\.\d+)$", re.MULTILINE)


class Result(NamedTuple):
    """A block, its output and its figure."""

    block: re.Match[str]
    printed: str
    figure: Any


def run(page: Path) -> Iterator[Result]:
    """Run the blocks of a page, which share their names, in an empty folder."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, _working_in(folder):
        for block in BLOCK.finditer(text):
            first_line = text[: block.start("source")].count("\n")
            source = "\n" * first_line + block["source"]  # tracebacks show the line of the page
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(source, str(page), "exec"), names)
            yield Result(block, printed.getvalue(), _figure())


def check(page: Path, pictures: Path | None = None) -> int:
    """Run a page, raise where output differs, and save its pictures; return how many blocks ran."""
    count = 0
    for count, result in enumerate(run(page), 1):  # noqa: B007
        shown = result.block["text"]
        line = page.read_text(encoding="utf-8")[: result.block.start()].count("\n") + 1
        if not _shows(shown, result.printed):
            raise AssertionError(
                f"{page.name}:{line}: the block prints\n{result.printed}and the page shows\n"
                f"{shown or ''}"
                f"Run python docs/_site/blocks.py {page.name} to write the output into the page."
            )
        if result.block["picture"]:
            if result.figure is None:
                raise AssertionError(f"{page.name}:{line}: the block draws no picture")
            if pictures is not None:
                _save(result, pictures)
    return count


def write(page: Path) -> None:
    """Run a page and write what it prints and draws into it."""
    text, parts, end = page.read_text(encoding="utf-8"), [], 0
    for result in run(page):
        block = result.block
        parts += [text[end : block.end("source")], "```"]
        if result.printed:
            kept = block["text"] if _shows(block["text"], result.printed) else result.printed
            parts.append(f"\n\n```text\n{kept}```")
        end = block.end("text") + 3 if block["text"] is not None else block.end("source") + 3
        if block["picture"]:
            _save(result, ROOT / "docs")
    text = "".join([*parts, text[end:]])
    if "`python3 run.py demo` |" in text:
        from metricfast._demo import QUESTIONS

        text = with_gains(text, "\n".join(str(answer()) for answer in QUESTIONS.values()))
    page.write_text(text, encoding="utf-8")


def with_gains(text: str, printed: str) -> str:
    """Return the text of a page whose table of gains has the figures that the demo printed."""
    for old, before, new, after in GAIN.findall(printed):
        row = rf"\| {old} \.\d+ \| {new} \*\*\.\d+\*\* (?=\| `python3 run\.py demo`)"
        text = re.sub(row, f"| {old} {before} | {new} **{after}** ", text)
    return text


def run_all(root: Path, pictures: Path) -> None:
    """Run all pages, two at a time, each in a process that no other library has touched."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    pages = [root / "README.md", *sorted((root / "docs").glob("*.md"))]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        for _ in pool.map(check, pages, [pictures] * len(pages)):
            pass


def _shows(shown: str | None, printed: str) -> bool:
    """Return whether a page shows what is printed, where "..." stands for anything."""
    return doctest.OutputChecker().check_output(shown or "", printed, doctest.ELLIPSIS)


def _figure() -> Any:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or not pyplot.get_fignums():
        return None
    figure = pyplot.gcf()
    pyplot.close("all")
    return figure


def _save(result: Result, folder: Path) -> None:
    file = folder / result.block["picture"]
    file.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a canvas that the program has closed
        result.figure.savefig(file, dpi=110, bbox_inches="tight")


@contextlib.contextmanager
def _working_in(folder: str) -> Iterator[None]:
    before = Path.cwd()
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write(Path(name).resolve())
