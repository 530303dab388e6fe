"""Draw performance.png: bars of the times on the page on performance.

python docs/img/performance.py
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

DOCS = Path(__file__).resolve().parents[1]
ROW = re.compile(r"^\| ([^|]+) \| ([\d.]+) s[^|]* \| ([^|]+\d) (?:[GM]B )?\|$", re.MULTILINE)
PEER = re.compile(r"(?:^|, )([^,]*?[^\d,])(?:, a loop over anchors,)? ([\d.]+)(?=,|$)")


def ratios(text: str) -> list[tuple[str, str, float]]:
    """Return work, peer, and the time of the peer divided by that of metricfast."""
    found = []
    for work, seconds, peers in ROW.findall(text):
        peer, time = min(PEER.findall(peers), key=lambda each: float(each[1]))
        found.append((work.replace("`", ""), peer, float(time) / float(seconds)))
    return found


def main() -> None:
    """Draw a bar for the fastest other library of each row."""
    rows = ratios((DOCS / "performance.md").read_text(encoding="utf-8"))
    rows.sort(key=lambda row: row[2])
    figure, axes = plt.subplots(figsize=(9, 0.28 * len(rows) + 0.8), layout="constrained")
    bars = axes.barh([work for work, *_ in rows], [ratio for *_, ratio in rows], color="C0")
    names = [f"{peer}: {ratio:.3g} times" for _, peer, ratio in rows]
    axes.bar_label(bars, names, padding=3, fontsize=8)
    axes.set(
        xscale="log",
        xlim=(0.9, 10000),
        xlabel="time of the fastest other library / time of metricfast",
    )
    axes.axvline(1, color="black", linewidth=1)
    axes.tick_params(axis="y", labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(DOCS / "img" / "performance.png", dpi=110)


if __name__ == "__main__":
    main()
