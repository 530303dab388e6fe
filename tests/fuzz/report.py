"""Report of a run: bad verdicts grouped by cause, each with a command that repeats a call."""

from __future__ import annotations

import re
import shlex
from collections import Counter

from .runner import Finding, Plan
from .verdicts import BAD, OURS

_WIDTH = 400


class Report:
    """Collects findings."""

    def __init__(self, plan: Plan) -> None:
        self._again = "".join(
            f" --{name} {shlex.quote(str(value))}"
            for name, value in plan._asdict().items()
            if value != plan._field_defaults[name]
        )
        self._verdicts: Counter[str] = Counter()
        self._targets: dict[tuple[str, str], Counter[str]] = {}
        self._first: dict[tuple[str, str], Finding] = {}

    def add(self, finding: Finding) -> None:
        self._verdicts[finding.verdict] += 1
        if finding.verdict in BAD:
            cause = finding.verdict, shape_of(finding.why) or finding.target
            self._targets.setdefault(cause, Counter())[finding.target] += 1
            known = self._first.get(cause)
            if known is None or len(finding.case) < len(known.case):
                self._first[cause] = finding

    @property
    def bad(self) -> int:
        return sum(self._verdicts[verdict] for verdict in BAD)

    def summary(self) -> str:
        found = ", ".join(f"{count} {verdict}" for verdict, count in self._verdicts.most_common())
        return f"{self._verdicts.total()} calls: {found}"

    def __str__(self) -> str:
        lines = []
        for (verdict, cause), targets in sorted(
            self._targets.items(), key=lambda item: (item[0][0], -item[1].total())
        ):
            first = self._first[verdict, cause]
            names = ", ".join(f"{name} {count}" for name, count in targets.most_common(6))
            why = first.why[-_WIDTH:] if verdict == OURS else first.why[:_WIDTH]
            lines.append(
                f"{verdict}, {targets.total()} times: {why}\n    in {names}"
                f"{f' and {len(targets) - 6} more' if len(targets) > 6 else ''}\n"
                f"    {first.case[:_WIDTH]}\n"
                f"    python -m tests.fuzz{self._again} --replay {first.call}"
            )
        return "\n".join([*lines, self.summary()])


def shape_of(why: str) -> str:
    """Return the first line of a message without numbers and quotes, to group messages."""
    text = re.sub(
        r"'[^']*'|\"[^\"]*\"|\[.*\]|<.*>",
        "…",
        why.rstrip().split("\n")[-1 if why.startswith("Traceback") else 0],
    )
    return re.sub(r"[-+]?\d[\d.e+-]*|\bnan\b|\binf\b", "#", text)[:120]
