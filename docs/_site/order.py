"""The order of the gallery: first the examples that show most clearly what is gained."""

from sphinx_gallery.sorting import _SortKey

FIRST = [
    "before_and_after.py",
    "new_classes.py",
    "which_features_matter.py",
    "gerrymandering_sets.py",
    "knn_regression.py",
    "pair_verification.py",
]


class ByValue(_SortKey):
    """Sort the files of a folder: the files of FIRST in its order, then the others by name."""

    def __call__(self, filename):
        """Return the place of a file."""
        place = FIRST.index(filename) if filename in FIRST else len(FIRST)
        return place, filename
