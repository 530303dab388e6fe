"""The command line: ``metricfast`` and ``python -m metricfast``."""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sklearn import datasets

import metricfast

_DATA = ("wine", "iris", "breast_cancer", "digits")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; invalid arguments exit with code 2."""
    parser = argparse.ArgumentParser(
        prog="metricfast", description="Metric learning: learned distances."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="answer five questions before and after learning")
    demo.add_argument(
        "--all", nargs="*", choices=_DATA, metavar="DATA",
        help=f"compare all learners instead, on these data sets (all: {', '.join(_DATA)})",
    )  # fmt: skip
    demo.add_argument(
        "--output", type=Path, default=Path("metricfast-demo.png"), help="the picture, a PNG file"
    )
    commands.add_parser("info", help="print how this copy was built and what it runs on")
    commands.add_parser("bench", help="run the benchmarks, in a checkout", add_help=False)
    options, rest = parser.parse_known_args(arguments)
    if options.command == "bench":
        return _run_benchmarks(rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if options.command == "info":
        return _print_info()
    if options.output.suffix != ".png" or not options.output.parent.is_dir():
        demo.error(f"argument --output: no PNG file can be written at {options.output}")
    if options.all is not None:
        return _compare_learners(options.all or _DATA)
    run_demo = importlib.import_module("metricfast._demo").run_demo
    return int(run_demo(options.output))


def _run_benchmarks(arguments: Sequence[str]) -> int:
    if not Path("benchmarks/__main__.py").is_file():
        print(
            "The benchmarks are not part of the installed package: run `python -m benchmarks` in a "
            "checkout of the sources, see benchmarks/README.md.",
            file=sys.stderr,
        )
        return 1
    return subprocess.call([sys.executable, "-m", "benchmarks", *arguments])


def _print_info() -> int:
    paths = {"headers": metricfast.get_include(), "library": metricfast.get_library_dir()}
    for key, value in (metricfast.build_info() | paths).items():
        print(f"{key}: {value}")
    return 0


def _compare_learners(names: Sequence[str]) -> int:
    """Compare the learners that suit each data set, and return the exit code."""
    for name in names:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        found = metricfast.compare(
            X, y, n_neighbors=3, random_state=0, callbacks=[lambda row: _show(row.learner)]
        )
        _show("")
        print(f"\n{name}: {found}", flush=True)
        if found.interrupted_:
            return 130
    return 0


def _show(learner: str) -> None:
    """On a terminal, replace the current line with the name of the learner just compared."""
    if sys.stderr.isatty():
        print(f"\r\033[K{learner and f'{learner}: done'}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
