"""The command line: ``python -m tests.fuzz --calls 1000000``."""

from __future__ import annotations

import argparse
import sys
import time

from .report import Report
from .runner import Plan, replay, run


def main() -> int:
    """Run the command line; the exit code is 1 if any call has a bad verdict."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default="", help="targets whose name contains this")
    parser.add_argument("--replay", type=int, metavar="CALL", help="make one call again, here")
    parser.add_argument("--table", default="targets", help="the module with the targets")
    parser.add_argument("--seconds", type=float, default=20, help="CPU time of a call")
    options = parser.parse_args()
    plan = Plan(options.seed, options.table, options.only, options.seconds)
    if options.replay is not None:
        finding = replay(plan, options.replay)
        print(f"{finding.verdict}: {finding.why}")
        return 0
    report, told = Report(plan), time.monotonic()
    for finding in run(plan, options.calls, options.jobs):
        report.add(finding)
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(report.summary(), file=sys.stderr, flush=True)
    print(report)
    return 1 if report.bad else 0


if __name__ == "__main__":
    sys.exit(main())
