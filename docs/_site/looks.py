"""Compare pages with small grey pictures of how they looked before.

A picture in ``looks`` is a sheet: the top of one page at each of the widths, side by side. A page
differs if many parts of its sheet are lighter or darker than before. New words hardly change a
sheet; a style that is gone, a menu over the text or an empty page do.
"""

from __future__ import annotations

__all__ = ["PAGES", "difference", "problems", "sheet"]

import io
from pathlib import Path

import numpy as np
from PIL import Image

FOLDER = Path(__file__).parent / "looks"
PAGES = (
    "index", "quickstart", "learners", "judge", "embeddings", "retrieval", "neighbors", "clicks",
    "cameras", "glossary", "api", "reference/metricfast.NCA",
)  # fmt: skip
PART = 16  # pixels of a screen that are one of a sheet
GREY = 32  # of 255: a part differs
MOST = 0.13  # share of parts: more than a few longer paragraphs, less than a lost stylesheet


def sheet(screenshots: list[bytes]) -> np.ndarray:
    """Return screenshots (PNG) side by side, as grey values of parts of the screen."""
    parts = []
    for screenshot in screenshots:
        image = Image.open(io.BytesIO(screenshot)).convert("L")
        size = image.width // PART, image.height // PART
        parts.append(np.asarray(image.resize(size, Image.Resampling.BOX)))
    height = max(len(part) for part in parts)
    return np.hstack(
        [np.pad(part, ((0, height - len(part)), (0, 0)), constant_values=255) for part in parts]
    )


def difference(before: np.ndarray, now: np.ndarray) -> float:
    """Return the share of parts that are lighter or darker than before; 1 for another size."""
    if before.shape != now.shape:
        return 1.0
    return float((np.abs(before.astype(int) - now) > GREY).mean())


def problems(page: str, screenshots: list[bytes], made: Path) -> list[str]:
    """Save the sheet of a page in the folder `made`, and say if it differs from the one kept."""
    now = sheet(screenshots)
    new, kept = (folder / f"{page.rpartition('/')[2]}.png" for folder in (made / "looks", FOLDER))
    new.parent.mkdir(exist_ok=True)
    Image.fromarray(now).save(new)
    share = difference(np.asarray(Image.open(kept)), now) if kept.exists() else 1.0
    if share <= MOST:
        return []
    return [f"{page}: {share:.0%} looks different; if it is right, copy {new} to {kept.parent}"]
