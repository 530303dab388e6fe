"""Build the site into build/site, warnings being errors, and check what was built.

Options go to Sphinx: with ``-t quick``, neither the examples of the gallery nor the blocks of pages
are executed. Where playwright and a Chromium are installed, every page is opened in it.
"""

import importlib.util
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main

DOCS = Path(__file__).resolve().parent
SITE = DOCS.parent / "build" / "site"

sys.path.insert(0, str(DOCS / "_site"))

if __name__ == "__main__":
    # Nothing is left from an earlier build, which could hide an error.
    for made in (SITE, DOCS / "drawn", DOCS / "gallery", DOCS / "project", DOCS / "reference"):
        shutil.rmtree(made, ignore_errors=True)
    strict = ["-E", "-W", "--keep-going", "-j", "2", "-q"]
    status = main([*strict, *sys.argv[1:], str(DOCS), str(SITE)])
    if status == 0:
        import check

        status = check.main(SITE)
    if status == 0 and importlib.util.find_spec("playwright"):
        import browse

        status = browse.main(SITE)
    sys.exit(status)
