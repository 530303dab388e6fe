"""Descriptions of pages: for search engines, and for cards where somebody shares a link."""

import re
from html import escape

LONGEST = 200  # characters, of which search engines show about 160


def description(doctree) -> str:
    """Return the first sentences of a page."""
    from docutils import nodes

    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if isinstance(paragraph.parent, nodes.section) and len(text) > 20:
            return text if len(text) <= LONGEST else shortened(text)
    return ""


def shortened(text: str) -> str:
    """Return the whole sentences that fit, or else the words that fit."""
    fit = text[:LONGEST]
    sentences = re.match(r".*[.:?!](?= )", fit)
    return sentences[0] if sentences else fit.rpartition(" ")[0] + " …"


def add_tags(app, pagename, templatename, context, doctree):
    """Add the tags to the head of a page."""
    context.setdefault("metatags", "")  # pages of the search have none
    tags = {"og:title": re.sub(r"<[^>]*>", "", context.get("title", "")), "og:type": "website"}
    tags["og:site_name"] = "metricfast"
    text = description(doctree) if doctree is not None else ""
    if text:
        tags["og:description"] = text
        context["metatags"] += f'\n<meta name="description" content="{escape(text)}">'
    if app.config.html_baseurl:  # cards need whole addresses
        tags["og:url"] = f"{app.config.html_baseurl}{pagename}.html"
        picture = re.search(r'src="[^"]*(_images/[^"]+)"', context.get("body", ""))
        tags["og:image"] = app.config.html_baseurl + (picture[1] if picture else "_images/demo.png")
    for name, value in tags.items():
        context["metatags"] += f'\n<meta property="{name}" content="{escape(value)}">'


def setup(app):
    """Add tags to each page that is written."""
    app.connect("html-page-context", add_tags)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
