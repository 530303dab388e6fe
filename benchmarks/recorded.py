"""Results of slow peers, stored by full runs so that ordinary runs need not repeat them."""

from __future__ import annotations

__all__ = ["find", "keep"]

import json
from pathlib import Path
from typing import Any

from benchmarks.case import Outcome, Row

FILE = Path(__file__).resolve().parent / "recorded.json"


def _load() -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return kept


def find(case: str, label: str) -> Outcome | None:
    """Return the recorded outcome of a peer, with the date and machine in its detail."""
    kept = _load().get(f"{case}/{label}")
    if kept is None:
        return None
    about = kept["about"]
    outcome = Outcome(**kept["outcome"])
    if outcome.status == "ok":
        outcome.status = "recorded"
    outcome.detail += f"{about['date']}, {about['cpu']}, `{about['command']}`"
    return outcome


def keep(about: dict[str, Any], rows: list[Row]) -> None:
    """Record the outcomes of entries that do not run each time."""
    kept = _load()
    for row in rows:
        for entry, outcome in zip(row.case.entries, row.outcomes, strict=True):
            if entry.when != "quick" and outcome.status in ("ok", "failed"):
                kept[f"{row.case.name}/{entry.label}"] = {
                    "about": {name: about[name] for name in ("date", "cpu", "cores", "command")},
                    "outcome": vars(outcome),
                }
    FILE.write_text(json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
