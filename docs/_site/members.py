"""What a page of the reference takes from the docstrings of a class."""


def skip_inherited(app, what, name, obj, skip, options):
    """Leave out what scikit-learn, PyTorch and Python bring along."""
    origin = getattr(obj, "fget", None) or obj
    module = getattr(origin, "__module__", None) or ""
    return True if what == "class" and not module.startswith("metricfast") else None


def join_lines(app, what, name, obj, options, lines):
    """Join lines that end in a backslash, which in raw docstrings are still two."""
    for i in reversed(range(len(lines) - 1)):
        if lines[i].endswith("\\"):
            lines[i : i + 2] = [lines[i][:-1] + lines[i + 1].lstrip()]


def setup(app):
    """Connect both; numpydoc reads the lines after that."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("autodoc-process-docstring", join_lines, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
