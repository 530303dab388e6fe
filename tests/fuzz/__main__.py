"""The command line: ``python -m tests.fuzz --calls 1000000``."""

from __future__ import annotations

import argparse
import sys
import time

from .report import Report
from .runner import replay, run


def main() -> int:
    """Run the command line; the exit code is 1 where a call was answered badly."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", help="targets whose name contains this")
    parser.add_argument("--replay", type=int, metavar="CALL", help="make one call again, here")
    parser.add_argument("--table", default="targets", help="the module with the targets")
    parser.add_argument("--progress", type=float, default=60, help="seconds between reports")
    options = parser.parse_args()
    if options.replay is not None:
        finding = replay(options.replay, options.seed, options.table, options.only)
        print(f"{finding.verdict}: {finding.why}")
        return 0
    report = Report(options.seed, options.table, options.only)
    told = time.monotonic()
    for finding in run(options.calls, options.seed, options.jobs, options.table, options.only):
        report.add(finding)
        if time.monotonic() - told > options.progress:
            told = time.monotonic()
            print(report.summary(), file=sys.stderr, flush=True)
    print(report)
    return 1 if report.bad else 0


if __name__ == "__main__":
    sys.exit(main())
