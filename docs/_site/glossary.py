"""Entries of the search: names in docs/glossary.md lead to the page on their line."""

import re
from pathlib import Path

ROW = re.compile(r"^\| (.+) \| \[.+\]\((\w+)\.md\) \|$", re.MULTILINE)


def names() -> dict[str, str]:
    """Return the page of each name."""
    text = (Path(__file__).parents[1] / "glossary.md").read_text(encoding="utf-8")
    return {name: page for names, page in ROW.findall(text) for name in names.split(", ")}


def add_entries(app, doctree):
    """Add the names of a page, which the search lists before other results."""
    from sphinx import addnodes

    here = app.env.docname
    entries = [("single", name, "", "main", None) for name, page in names().items() if page == here]
    if entries:
        doctree.append(addnodes.index(entries=entries))


def setup(app):
    """Add the entries to each page that is read."""
    app.connect("doctree-read", add_entries)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
