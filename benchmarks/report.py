"""The table and the JSON file."""

from __future__ import annotations

__all__ = ["busy_cores", "load", "machine", "table", "write_json"]

import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.bounds import Rates
from benchmarks.case import OURS, Row

SCHEMA = 1
BUSY = 0.2
MARK = {True: "reached", False: "NOT reached", None: "unknown"}


def load() -> list[float]:
    """Return the load averages, or an empty list if the system has none."""
    return list(os.getloadavg()) if hasattr(os, "getloadavg") else []


def busy_cores(seconds: float = 0.5) -> float | None:
    """Return how many cores other processes use now, or None if that is unknown.

    Times are unreliable while other processes compute. A load average would include our last run.
    """

    def used() -> float:
        user, nice, system = (int(t) for t in Path("/proc/stat").read_text().split()[1:4])
        return (user + nice + system) / os.sysconf("SC_CLK_TCK")

    try:
        before, start = used(), time.perf_counter()
        time.sleep(seconds)
        return (used() - before) / (time.perf_counter() - start)
    except OSError:
        return None


def machine() -> dict[str, Any]:
    """Describe the machine."""
    try:
        with Path("/proc/cpuinfo").open() as lines:
            cpu = next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        cpu = platform.processor()
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "load_at_start": load(),
        "busy_cores_at_start": busy_cores(),
        "isa": os.environ.get("METRICFAST_ISA"),
    }


def _seconds(value: float | None) -> str:
    if value is None:
        return "-"
    if value < 0.01:
        return f"{1e3 * value:.3f} ms"
    return f"{value:.3f} s" if value < 10 else f"{value:.1f} s"


def table(row: Row) -> str:
    """Return a case as text: bound, contestants, ratios to ours and to the bound, targets."""
    outcomes, bound = row.outcomes, row.bound
    ours = next((o.seconds for o in outcomes if o.label == OURS), None)
    lines = [f"{row.case.name}: {row.case.title}"]
    if row.busy_cores is not None and row.busy_cores > BUSY:
        lines.append(
            f"  other processes were using {row.busy_cores:.1f} cores: times suffer from it"
        )
    header = f"  {'':18}{'median':>10}{'best':>10}{'cpu':>10}{'vs ours':>9}{'vs bound':>9}"
    header += f"{'threads':>9}{'peak MB':>9}"
    lines.append(header)
    if bound is not None:
        ratio = f"{bound / ours:.2f}x" if ours else ""
        lines.append(f"  {'lower bound':18}{_seconds(bound):>10}{ratio:>29}")
    for o in outcomes:
        best = _seconds(min(o.samples, default=None))
        cells = f"  {o.label:18}{_seconds(o.seconds):>10}{best:>10}{_seconds(o.cpu_seconds):>10}"
        cells += f"{o.seconds / ours:8.2f}x" if o.seconds and ours else " " * 9
        cells += f"{o.seconds / bound:8.2f}x" if o.seconds and bound else " " * 9
        cells += f"{o.threads or '':>9}"
        cells += f"{o.peak_bytes / 1e6:9.0f}" if o.peak_bytes is not None else " " * 9
        cells += "".join(f"  {name} {value:.5g}" for name, value in o.metrics.items())
        if o.status != "ok":
            cells += f"  {o.status}: {o.detail}"
        lines.append(cells.rstrip())
    lines += [f"  → {verdict.text}: {MARK[verdict.reached]}" for verdict in row.verdicts]
    return "\n".join(lines)


def write_json(
    path: Path, about: dict[str, Any], rates: Rates, rows: list[Row], **more: Any
) -> None:
    """Write all measurements and further details as JSON."""
    document = {
        "schema": SCHEMA,
        "machine": about,
        "rates": asdict(rates),
        "cases": [
            {
                "name": row.case.name,
                "title": row.case.title,
                "bound_seconds": row.bound,
                "busy_cores": row.busy_cores,
                "entries": [asdict(outcome) for outcome in row.outcomes],
                "targets": [asdict(verdict) for verdict in row.verdicts],
            }
            for row in rows
        ],
        **more,
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
