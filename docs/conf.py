"""Configuration of Sphinx, for `python3 run.py docs` and `python -m docs`."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_site"))

import blocks  # noqa: E402
import pages  # noqa: E402
from pictures import DescribedPictures  # noqa: E402

project = "metricfast"
author = "the authors of metricfast"
version = release = version_of("metricfast")
language = "en"

extensions = [
    "cards",
    "glossary",
    "links",
    "mathml",
    "members",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_site", "drawn", "img"]
default_role = "py:obj"  # `fit` in a docstring is a link where it is a name, else code

html_theme = "pydata_sphinx_theme"
html_title = "metricfast"
html_static_path = ["_site/static"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
templates_path = ["_site/templates"]
html_favicon = "_site/static/favicon.svg"
html_context = {"default_mode": "auto"}
html_copy_source = True  # "Show source" has the text of the page
html_sourcelink_suffix = ""
html_use_index = False
html_domain_indices = False
html_math_renderer = "mathml"
# Pages without pages below them.
html_sidebars = {page: [] for page in ("index", "quickstart", "learners", "cpp", "performance")}
html_theme_options = {
    "logo": {
        "image_light": "img/logo-light.svg",
        "image_dark": "img/logo-dark.svg",
        "alt_text": "metricfast: to the start page",
    },
    "header_links_before_dropdown": 5,
    "navbar_start": ["navbar-logo", "version"],
    "navbar_end": ["theme-switcher"],
    "footer_end": [],
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc", "sourcelink"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # commands of psql between lines of SQL

autodoc_mock_imports = ["torch"]
autodoc_typehints = "none"
autodoc_inherit_docstrings = True
autosummary_generate = False
numpydoc_show_class_members = False

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"examples/cpp/|__init__\.py",
    "example_extensions": {".py"},
    "abort_on_example_error": True,
    "image_scrapers": (DescribedPictures(),),
    "remove_config_comments": True,
    "min_reported_time": 0,
    "parallel": 2,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "plot_gallery": not tags.has("quick"),  # noqa: F821
    "write_computation_times": False,
    "within_subsection_order": "order.ByValue",
}


def show_drawn_pictures(app, name, source):
    """Show the pictures that the blocks of the page have drawn in this build."""
    for block in blocks.BLOCK.finditer(source[0]):
        if block["picture"]:
            source[0] = source[0].replace(f"]({block['picture']})", f"](drawn/{block['picture']})")


def setup(app):
    """Write the pages that no one has to write, and run the blocks of the others."""
    app.connect("config-inited", lambda *_: pages.write(ROOT))
    if not app.tags.has("quick"):
        app.connect("config-inited", lambda *_: blocks.run_all(ROOT, ROOT / "docs" / "drawn"))
        app.connect("source-read", show_drawn_pictures)
