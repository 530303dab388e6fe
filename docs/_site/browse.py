"""Open every page of a built site in Chromium, as wide as a screen, a tablet and a phone.

python docs/_site/browse.py build/site

Needs playwright (``pip install playwright``) and a Chromium: playwright's own, or the system's.
"""

from __future__ import annotations

import functools
import http.server
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import looks

SCREEN, TABLET, PHONE = ({"width": width, "height": 900} for width in (1280, 768, 390))
# Pixels that a page or its article is too wide, pictures that did not load, and tables whose second
# column is beyond the right edge.
LOOK = """() => {
    const width = document.documentElement.clientWidth;
    const article = document.querySelector("article") ?? document.documentElement;
    const wide = Math.max(document.documentElement.scrollWidth - width,
        article.scrollWidth - article.clientWidth);
    const broken = [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src);
    const second = [...document.querySelectorAll("article table tr:first-child > :nth-child(2)")];
    const hidden = second.filter(cell => cell.getBoundingClientRect().left > width - 40);
    return [wide, broken, hidden.map(cell => cell.innerText)];
}"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def _served(site: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def _chromium(own: str) -> str | None:
    names = (own, "chromium", "chromium-browser", "google-chrome")
    return next((path for path in map(shutil.which, names) if path), None)


def _note(request: Any, found: list[str]) -> None:
    if request.failure != "net::ERR_ABORTED":  # as by going to the next page
        found.append(f"{request.frame.url}: no {request.url}")


def problems(site: Path) -> list[str]:
    """Return problems, a line each."""
    from playwright.sync_api import sync_playwright

    found: list[str] = []
    with _served(site) as address, sync_playwright() as playwright:
        program = _chromium(playwright.chromium.executable_path)
        if program is None:
            print("no Chromium is installed: no page was opened in it")
            return []
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=SCREEN)
        page.on("console", lambda m: m.type == "error" and found.append(f"{page.url}: {m.text}"))
        page.on("pageerror", lambda error: found.append(f"{page.url}: {error}"))
        page.on("requestfailed", lambda request: _note(request, found))
        files = sorted(set(site.rglob("*.html")) - set(site.glob("_static/**/*.html")))
        for file in files:
            name = file.relative_to(site).as_posix()
            looked_at = name.removesuffix(".html") in looks.PAGES
            screenshots = []
            for size in (SCREEN, TABLET, PHONE) if looked_at else (SCREEN, PHONE):
                page.set_viewport_size(size)
                page.goto(f"{address}/{name}", wait_until="load")
                wide, broken, hidden = page.evaluate(LOOK)
                if wide > 0:
                    found.append(f"{name}: {wide} pixels too wide for {size['width']}")
                found += [f"{name}: {picture} does not load" for picture in broken]
                found += [f"{name}: column {text!r} is out of sight" for text in hidden]
                if looked_at:
                    screenshots.append(page.screenshot())
            if looked_at:
                found += looks.problems(name.removesuffix(".html"), screenshots, site.parent)
        page.goto(f"{address}/search.html?q=LMNN")
        page.wait_for_selector("#search-results li a", timeout=20_000)
        titles = page.locator("#search-results li a").all_inner_texts()
        if not any("LMNN" in title for title in titles):
            found.append(f"the search for LMNN finds {titles[:5]}")
        print(f"{len(files)} pages in Chromium {browser.version}; LMNN: {titles[:4]}")
        browser.close()
    return found


def main(site: Path) -> int:
    """Print what is wrong and return 1, or 0."""
    found = problems(site.resolve())
    print("\n".join(found) or "no error in the console, nothing too wide")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
