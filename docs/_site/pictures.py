"""Pictures of the gallery, each with the words that stand for it where it is not seen."""

import re

import matplotlib.pyplot as plt
from sphinx_gallery.scrapers import figure_rst

COMMENT = re.compile(r"^\s*# Picture: (.*(?:\n\s*# .*)*)", re.MULTILINE)


class DescribedPictures:
    """Saves the figures of a cell, whose comments say what is seen: ``# Picture: ...``."""

    def __call__(self, block, block_vars, gallery_conf):
        """Save all open figures and return what shows them."""
        texts = [re.sub(r"\s*\n\s*# ", " ", text) for text in COMMENT.findall(block[1])]
        figures = plt.get_fignums()
        if len(texts) < len(figures):
            raise ValueError(
                f"{block_vars['src_file']}: a cell that draws {len(figures)} figures has "
                f"{len(texts)} comments that begin with '# Picture: '."
            )
        found = []
        for number, text, path in zip(
            figures, texts, block_vars["image_path_iterator"], strict=False
        ):
            plt.figure(number).savefig(path, bbox_inches="tight")
            found.append(figure_rst([path], gallery_conf["src_dir"], text))
        plt.close("all")
        return "\n".join(found)

    def __repr__(self):
        """Return what stays the same from one build to the next."""
        return "DescribedPictures()"
