"""Pictures of the gallery, each with the words that stand for it where it is not seen."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.transforms import Bbox
from sphinx_gallery.scrapers import figure_rst

COMMENT = re.compile(r"^\s*# Picture: (.*(?:\n\s*# .*)*)", re.MULTILINE)

# The panels that are the thumbnail of an example, of its first figure; by default all.
THUMBNAILS = {
    "arrangements": [1],
    "before_and_after": [4],  # the first axes hold the others
    "captions": [11 * row + column for row in range(4) for column in range(6, 11)],
    "clustering": [1],
    "continuous_labels": [2],
    "decision_regions": [1],
    "gerrymandering_sets": [0],
    "head_pose": [13 * row + column for row in range(4) for column in range(8, 13)],
    "kernel": [2],
    "knn_regression": [1],
    "loss_curves": [1, 2],  # two axes of one panel
    "mlp_embedding": [2],
    "neighbors_of_images": [1],
    "new_classes": [0],
    "pair_verification": [0],
    "poses": [1],
    "quick_start": [1],
    "retrieval": [0],
    "two_domains": [1],
    "which_features_matter": [0],
}


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
        panels = THUMBNAILS.get(Path(block_vars["src_file"]).stem)
        if panels and figures and not len(block_vars["image_path_iterator"]):
            # The thumbnail is the first of the images, which this page does not show.
            save_panels(plt.figure(figures[0]), panels, next(block_vars["image_path_iterator"]))
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


def save_panels(figure, panels, path):
    """Save the part of a figure that holds some of its panels."""
    figure.canvas.draw()  # which lays them out
    boxes = [figure.axes[panel].get_tightbbox() for panel in panels]
    box = Bbox.union(boxes).transformed(figure.dpi_scale_trans.inverted())
    figure.savefig(path, bbox_inches=box.padded(0.05))
