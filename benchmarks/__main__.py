"""Command line of the benchmark suite."""

from __future__ import annotations

__all__ = ["main"]

import argparse
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks import against, bounds, peers, recorded, report, revisions
from benchmarks.case import Case, Level, Row
from benchmarks.suite import cases
from benchmarks.timing import run_case

try:
    from benchmarks.plot import plot
except ImportError:
    plot = None  # type: ignore[assignment]

ROUNDS: dict[Level, int] = {"quick": 2, "normal": 7, "full": 7}
# Ratios near 1 need more rounds. Cases that seem slower than the revision are measured again,
# longer.
ROUNDS_AGAINST: dict[Level, int] = {"quick": 5, "normal": 9, "full": 9}
LONGER = 3
TIMEOUT: dict[Level, float] = {"quick": 60, "normal": 300, "full": 3600}
RESULTS = Path(__file__).resolve().parent / "results"


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("command", nargs="?", choices=["run", "setup-peers"], default="run")
    parser.add_argument("--quick", action="store_true", help="smaller selection, under 3 minutes")
    parser.add_argument("--full", action="store_true", help="include slow peers and MNIST")
    parser.add_argument("--only", action="append", metavar="NAME", help="cases with NAME in theirs")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    parser.add_argument("--against", metavar="REV", help="beside this revision of the library")
    parser.add_argument("--threads", type=int, metavar="N", help="--against: of every call")
    parser.add_argument("--rounds", type=int, metavar="N", help="interleaved rounds")
    parser.add_argument("--timeout", type=float, metavar="SECONDS", help="for one run of a peer")
    parser.add_argument("--record", action="store_true", help="keep the slow peers' results")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    parser.add_argument("--base-python", metavar="PATH", help="setup-peers: Python to build with")
    return parser.parse_args(argv)


def _run(
    case: Case, rates: bounds.Rates, level: Level, rounds: int, options: argparse.Namespace
) -> Row:
    def say(text: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    busy = report.busy_cores()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run_case(
            case,
            Path(folder),
            rounds,
            level=level,
            timeout=options.timeout or max(TIMEOUT[level], TIMEOUT[case.when]),
            recorded=recorded.find,
            say=say,
        )
    say("")
    by_label = {outcome.label: outcome for outcome in outcomes}
    verdicts = [target.judge(by_label) for target in case.targets]
    return Row(case, outcomes, verdicts, case.bound(rates) if case.bound else None, busy)


def main(argv: list[str] | None = None) -> int:
    """Run the selected cases, print their tables, and write the JSON file and the plot."""
    options = _arguments(argv)
    if options.command == "setup-peers":
        peers.set_up(options.base_python)
        return 0
    level: Level = "quick" if options.quick else "full" if options.full else "normal"
    rounds = options.rounds or (ROUNDS_AGAINST if options.against else ROUNDS)[level]
    if options.against:
        peer = f"@{options.against}"
        chosen = against.cases(peer, level, options.only, options.threads)
    else:
        chosen = cases(level, options.only)
    if options.list or not chosen:
        width = max((len(case.name) for case in chosen), default=0)
        lines = [f"{case.name:{width}}  {case.title}" for case in chosen]
        print("\n".join(lines) or "no such case")
        return 0 if chosen else 2
    if options.against:
        try:
            commit = revisions.resolve(options.against)
            peers.INTERPRETERS[peer] = revisions.install(commit)
        except peers.RevisionError as error:
            print(error, file=sys.stderr)
            return 2
    start = time.time()
    about = report.machine()
    about["command"] = " ".join(["python -m benchmarks", *(sys.argv[1:] if argv is None else argv)])
    rates = bounds.measure()
    print(
        f"{about['cpu']}, {about['cores']} cores\n"
        f"products {rates.gemm['float32'] / 1e9:.0f} GFLOP/s in float32, "
        f"{rates.gemm['float64'] / 1e9:.0f} in float64; memory written at "
        f"{rates.write / 1e9:.1f} GB/s, first touched at {rates.first_touch / 1e9:.1f}, "
        f"read at {rates.read / 1e9:.1f}\n"
    )
    rows = []
    for case in chosen:
        rows.append(_run(case, rates, level, rounds, options))
        if options.against and any(verdict.reached is False for verdict in rows[-1].verdicts):
            rows[-1] = _run(case, rates, level, LONGER * rounds, options)
        print(report.table(rows[-1]) + "\n", flush=True)
    about |= {"seconds": time.time() - start, "load_at_end": report.load()}
    if options.record:
        recorded.keep(about, rows)
    options.output.mkdir(parents=True, exist_ok=True)
    if options.against:
        found = against.ratios(rows)
        path = options.output / "against.json"
        ratios = {name: asdict(ratio) for name, ratio in found.items()}
        report.write_json(path, about, rates, rows, against=commit, ratios=ratios)
        print(f"{against.summary(found)}\n{about['seconds']:.0f} s; results in {path}")
        return 0
    report.write_json(options.output / "benchmarks.json", about, rates, rows)
    if plot is None:
        print("no plot: matplotlib is not installed")
    else:
        plot(options.output / "benchmarks.png", rows)
    unmet = sum(verdict.reached is False for row in rows for verdict in row.verdicts)
    print(f"{about['seconds']:.0f} s; targets not reached: {unmet}; results in {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
