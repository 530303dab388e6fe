"""Check a site that was built: links, anchors, alternative text, width, names and the search."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import glossary
import pages

# Wider than the screens of phones, in pixels, minus the margins.
NARROW = 360
# Classes of elements that may be wider than the page, because they scroll.
SCROLLS = {"pst-scrollable-table-container", "formula", "highlight"}
# docutils writes 12 over the next sign for \frac12, which is a half in TeX.
BARE_FRACTION = re.compile(r"\\frac\s*(?:\{[^{}]*\}\s*)?[^\s{]")
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


class Page(HTMLParser):
    """What a page refers to, what it can be referred to by, and what is wrong with it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.wrong: list[str] = []
        self.has_viewport = False
        self._open: list[tuple[str, set[str]]] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        """Look at what begins."""
        attributes = dict(given)
        classes = set((attributes.get("class") or "").split())
        if attributes.get("id"):
            self.ids.add(str(attributes["id"]))
        if tag == "a" and attributes.get("name"):
            self.ids.add(str(attributes["name"]))
        for name in ("href", "src"):
            if attributes.get(name):
                self.links.append(str(attributes[name]))
        needed = attributes.get("src") or (attributes.get("href") if tag == "link" else None) or ""
        if re.match(r"(https?:)?//", needed):
            self.wrong.append(f"<{tag}> needs {needed}, from another server")
        if tag == "meta" and attributes.get("name") == "viewport":
            self.has_viewport = "width=device-width" in (attributes.get("content") or "")
        if tag == "img":
            self._image(attributes)
        if tag == "table" and not self._within(SCROLLS):
            self.wrong.append("a table that does not scroll on a narrow screen")
        width = re.search(r"(?<!max-)width:\s*(\d+)px", attributes.get("style") or "")
        if width and int(width[1]) > NARROW and not self._within(SCROLLS):
            self.wrong.append(f"<{tag}> is {width[1]} pixels wide")
        if tag not in VOID:
            self._open.append((tag, classes))

    def handle_endtag(self, tag: str) -> None:
        """Close what is open, and what was left open in it."""
        for i in reversed(range(len(self._open))):
            if self._open[i][0] == tag:
                del self._open[i:]
                return

    def _within(self, classes: set[str]) -> bool:
        return any(classes & of for _, of in self._open)

    def _image(self, attributes: dict[str, str | None]) -> None:
        source = attributes.get("src") or ""
        alone = "sphx-glr-thumb" not in " ".join(" ".join(c) for _, c in self._open)
        words = (attributes.get("alt") or "").split()
        # Thumbnails stand beside their titles: nothing needs to be said of them twice.
        if alone and "_thumb" not in source and (len(words) < 4 or source.endswith(words[-1])):
            self.wrong.append(f"no alternative text of {source}")


def problems(site: Path) -> list[str]:
    """Return what is wrong, a line each."""
    files = sorted(set(site.rglob("*.html")) - set(site.glob("_static/**/*.html")))
    read = {file: Page(file) for file in files}
    found = [] if read else [f"no pages in {site}"]
    for file, page in read.items():
        here = file.relative_to(site)
        found += [f"{here}: {wrong}" for wrong in page.wrong]
        if not page.has_viewport:
            found.append(f"{here}: no viewport, so that phones show it as if on a wide screen")
        for link in page.links:
            found += [f"{here}: {wrong}" for wrong in _followed(file, link, read)]
    for names in pages.public_names(pages.public_modules()).values():
        for name in names:
            if not (site / "reference" / f"{name.page}.html").exists():
                found.append(f"no page for {name.path}")
    index = json.loads(re.search(r"\{.*\}", (site / "searchindex.js").read_text("utf-8"))[0])
    if "lmnn" not in index["terms"]:
        found.append("the search does not know lmnn")
    for name, page in glossary.names().items():
        entries = index["indexentries"].get(name.lower(), ())
        if page not in [index["docnames"][number] for number, *_ in entries]:
            found.append(f"the search for {name} does not lead to {page}")
    return found


def _followed(file: Path, link: str, read: dict[Path, Page]) -> list[str]:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return []
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return [f"a link to {link}, where nothing is"]
    anchor = unquote(parts.fragment)
    if anchor and target in read and anchor not in read[target].ids:
        return [f"a link to {link}, which has no such anchor"]
    return []


def main(site: Path) -> int:
    """Print what is wrong and return 1, or 0."""
    found = problems(site.resolve())
    print("\n".join(found) or f"links, anchors and pictures of {site} are whole")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
