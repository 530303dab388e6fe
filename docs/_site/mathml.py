"""Formulas as MathML, which browsers draw by themselves: no script, nothing from the network."""

from check import BARE_FRACTION
from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging


def _as_mathml(node, as_block):
    try:
        if BARE_FRACTION.search(node.astext()):
            raise MathError(r"give \frac its arguments in braces, as in \frac{1}{2}")
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("formula: %s", error, location=node)
        return ""


def inline(translator, node):
    """Write a formula within a line."""
    translator.body.append(_as_mathml(node, as_block=False))
    raise nodes.SkipNode


def block(translator, node):
    """Write a formula in lines of its own, which scrolls where it is too wide."""
    formula = _as_mathml(node, as_block=True)
    translator.body.append(f'<div class="formula" tabindex="0">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Add the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
