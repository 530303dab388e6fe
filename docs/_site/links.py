"""Links to what the site shows in its own way: programs of examples/ and pages beside docs/."""

from pathlib import Path

import pages
from docutils import nodes
from sphinx import addnodes

import metricfast

ROOT = Path(__file__).resolve().parents[2]
# A public module leads to its page of the reference.
REFERENCE = {
    f"src/metricfast/{name}{suffix}": f"reference/metricfast.{name}"
    for name in metricfast._SUBMODULES
    for suffix in (".py", "/__init__.py")
} | {"src/metricfast/__init__.py": "reference/index"}
COPIES = {**pages.COPIES, "examples/GALLERY_HEADER": "gallery/index"}


def point_within(app, doctree):
    """Let links to files, which work on a code host, lead to pages of the site, or to the files."""
    here = Path(app.env.doc2path(app.env.docname)).parent
    for link in list(doctree.findall(lambda node: isinstance(node, LINKS))):
        if link.get("refdomain") not in (None, "doc") or "reftarget" not in link:
            continue
        file = Path(here, link["reftarget"]).resolve()
        if not file.is_relative_to(ROOT) or file.is_relative_to(ROOT / "docs"):
            continue
        path = file.relative_to(ROOT).as_posix()
        page = COPIES.get(path) or REFERENCE.get(path)
        if path.startswith("examples/") and file.suffix == ".py":
            page = "gallery" + path.removeprefix("examples").removesuffix(".py")
        if page:
            found = addnodes.pending_xref(
                refdomain="std", reftype="doc", reftarget=f"/{page}", refexplicit=True
            )
        else:  # MyST takes any file that ends in .md for a page
            suffix = "" if file.exists() else ".md"
            found = addnodes.download_reference(reftarget=f"/../{path}{suffix}")
        found["refdoc"], found["refwarn"] = app.env.docname, True
        found.append(nodes.inline("", link.astext()))
        link.replace_self(found)


LINKS = (addnodes.download_reference, addnodes.pending_xref)


def setup(app):
    """Change links before Sphinx collects files to download."""
    app.connect("doctree-read", point_within, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
