"""Published errors of Kedem et al. for the data sets of `benchmarks.gerrymandering`."""

from __future__ import annotations

__all__ = ["report"]

from collections.abc import Mapping

import numpy as np

# "Non-linear metric learning", NIPS 2012, table 1: errors with k = 3, in percent, of the Euclidean
# distance, ITML, LMNN and GB-LMNN.
PUBLISHED = {
    "isolet": (8.4, 5.3, 1.5, 1.4),
    "usps": (6.2, 5.7, 2.6, 2.5),
    "letter": (6.0, 6.0, 3.8, 1.9),
    "office dslr": (60.6, 25.0, 28.9, 22.9),
    "office webcam": (43.8, 12.4, 15.8, 12.4),
    "office amazon": (33.7, 31.6, 31.8, 29.6),
    "office caltech10": (53.8, 52.2, 50.9, 49.8),
}
# Percentage points by which Euclidean errors may differ under the same protocol.
_AGREES = 0.5


def report(ours: Mapping[str, Mapping[str, list[float]]]) -> str:
    """Return published errors of LMNN next to ours, and whether the protocols agree.

    `ours` are the errors of splits, by data set and method. Data sets without errors of both
    "Euclidean" and "LMNN" are left out.
    """
    known = [row for row in PUBLISHED if {"Euclidean", "LMNN"} <= set(ours.get(row, ()))]
    if not known:
        return ""
    lines = [
        "\n| k = 3 | Euclidean: ours | published | difference | LMNN: ours | published "
        "| published ITML | published GB-LMNN |\n|---|" + "---:|" * 7
    ]
    differences = {}
    for row in known:
        euclidean, lmnn = (float(np.mean(ours[row][name])) for name in ("Euclidean", "LMNN"))
        theirs = PUBLISHED[row]
        differences[row] = euclidean - theirs[0]
        cells = (euclidean, theirs[0], differences[row], lmnn, theirs[2], *theirs[1::2])
        lines.append(f"| {row} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
    other = [f"{row} by {each:+.1f}" for row, each in differences.items() if abs(each) > _AGREES]
    same = ", ".join(row for row in known if abs(differences[row]) <= _AGREES)
    lines.append(f"\nEuclidean errors agree within {_AGREES} points: {same or 'none'}.")
    if other:
        lines.append(
            f"They differ: {', '.join(other)}. These rows have other protocols, and compare no "
            "methods."
        )
    return "\n".join(lines)
