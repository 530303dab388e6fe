"""The kinds of targets of a case."""

from __future__ import annotations

__all__ = ["ErrorAtMost", "GrowthAtMost", "MemoryAtMost", "SecondsAtMost", "Speedup", "TimesAtMost"]

from dataclasses import dataclass

import numpy as np

from benchmarks.case import OURS, Outcome, Verdict

OBJECTIVE_TOLERANCE = 1e-3


def _note(*outcomes: Outcome) -> str:
    return " (recorded)" if any(o.status == "recorded" for o in outcomes) else ""


@dataclass
class Speedup:
    """Ours is `factor` times as fast as a peer, and a fit reaches at most the peer's objective."""

    peer: str
    factor: float
    ours: str = OURS

    def judge(self, outcomes: dict[str, Outcome]) -> Verdict:
        """Compare medians and final objectives."""
        text = f"{self.ours} ≥ {self.factor:g}x {self.peer}"
        ours, peer = outcomes.get(self.ours), outcomes.get(self.peer)
        if not (ours and peer and ours.usable and peer.usable and ours.seconds and peer.seconds):
            return Verdict(f"{text}: not measured", None)
        ratio = peer.seconds / ours.seconds
        text = f"{text}: {ratio:.2f}x{_note(peer)}"
        if "objective" in ours.metrics and "objective" in peer.metrics:
            goal = peer.metrics["objective"]
            if ours.metrics["objective"] > goal + OBJECTIVE_TOLERANCE * abs(goal):
                return Verdict(f"{text}, but at a higher objective", False)
        return Verdict(text, ratio >= self.factor)


@dataclass
class MemoryAtMost:
    """Our peak memory, excluding the input, is at most `megabytes` (10⁶ bytes each)."""

    megabytes: float
    ours: str = OURS

    def judge(self, outcomes: dict[str, Outcome]) -> Verdict:
        """Compare the peak."""
        text = f"{self.ours} ≤ {self.megabytes:g} MB above the input"
        ours = outcomes.get(self.ours)
        if ours is None or ours.peak_bytes is None:
            return Verdict(f"{text}: not measured", None)
        peak = ours.peak_bytes / 1e6
        return Verdict(f"{text}: {peak:.0f}", peak <= self.megabytes)


@dataclass
class SecondsAtMost:
    """Our time stays within `seconds`."""

    seconds: float
    ours: str = OURS

    def judge(self, outcomes: dict[str, Outcome]) -> Verdict:
        """Compare the median."""
        text = f"{self.ours} ≤ {self.seconds:g} s"
        ours = outcomes.get(self.ours)
        if ours is None or ours.seconds is None:
            return Verdict(f"{text}: not measured", None)
        return Verdict(f"{text}: {ours.seconds:.3g}", ours.seconds <= self.seconds)


@dataclass
class TimesAtMost:
    """Our time is at most `factor` times that of a peer."""

    peer: str
    factor: float
    ours: str = OURS

    def judge(self, outcomes: dict[str, Outcome]) -> Verdict:
        """Compare medians."""
        text = f"{self.ours} ≤ {self.factor:g}x {self.peer}"
        ours, peer = outcomes.get(self.ours), outcomes.get(self.peer)
        if not (ours and peer and ours.seconds and peer.seconds):
            return Verdict(f"{text}: not measured", None)
        ratio = ours.seconds / peer.seconds
        return Verdict(f"{text}: {ratio:.2f}x", ratio <= self.factor)


@dataclass
class ErrorAtMost:
    """Our test error is at most the best of `peers` plus `points` percentage points."""

    peers: tuple[str, ...]
    points: float = 0.0
    strictly: bool = False
    ours: str = OURS

    def judge(self, outcomes: dict[str, Outcome]) -> Verdict:
        """Compare test errors."""
        text = f"{self.ours} error {'<' if self.strictly else '≤'} {' or '.join(self.peers)}"
        text += f" + {self.points:g} points" if self.points else ""
        ours = outcomes.get(self.ours)
        peers = [outcomes[p] for p in self.peers if p in outcomes and outcomes[p].usable]
        peers = [peer for peer in peers if "error" in peer.metrics]
        if ours is None or "error" not in ours.metrics or not peers:
            return Verdict(f"{text}: not measured", None)
        goal = min(peer.metrics["error"] for peer in peers) + self.points / 100
        error = ours.metrics["error"]
        text = f"{text}: {100 * error:.2f} % against {100 * goal:.2f}{_note(*peers)}"
        return Verdict(text, error < goal if self.strictly else error <= goal + 1e-12)


@dataclass
class GrowthAtMost:
    """Times grow at most as size to the power `power`; `sizes` are given by label."""

    sizes: dict[str, int]
    power: float

    def judge(self, outcomes: dict[str, Outcome]) -> Verdict:
        """Fit a line to the logarithms of the best times."""
        text = f"time grows with a power ≤ {self.power:g}"
        found = [
            (size, min(outcomes[label].samples))
            for label, size in self.sizes.items()
            if label in outcomes and outcomes[label].samples
        ]
        if len(found) < 2:
            return Verdict(f"{text}: not measured", None)
        power = np.polyfit(*np.log(found).T, 1)[0]
        return Verdict(f"{text}: {power:.2f}", bool(power <= self.power))
