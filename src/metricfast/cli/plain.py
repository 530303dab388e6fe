"""The commands that need no optional package: `demo` and `info`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from sklearn import datasets

import metricfast

__all__ = ["run"]

DATA = ("wine", "iris", "breast_cancer", "digits")
_OTHERS = {
    "compare": "which learner suits a table",
    "fit": "learn a distance from a table",
    "transform": "write the rows of a table as points of the learned space",
    "predict": "predict labels by nearest neighbours",
    "neighbors": "find the rows nearest to each row",
    "evaluate": "compare predictions of the learned distance and the Euclidean one",
    "inspect": "print what is in a model file",
    "bench": "run the benchmarks, of a checkout of the sources",
}


def run(arguments: Sequence[str], missing: Sequence[str] = ()) -> int:
    """Run one of these commands and return its exit code; bad arguments exit with code 2.

    `missing`: packages for want of which the other commands cannot run.
    """
    lacks = f"needs packages that are not here: pip install {' '.join(missing)}"
    parser = argparse.ArgumentParser(
        prog="metricfast",
        description="Learned distances for tables in files.",
        epilog=f"Every command but demo and info {lacks}" if missing else None,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    demo_parser = commands.add_parser("demo", help="five questions before and after learning")
    demo_parser.add_argument(
        "--all", nargs="*", choices=DATA, metavar="DATA",
        help=f"compare all learners instead, on these data sets (all: {', '.join(DATA)})",
    )  # fmt: skip
    demo_parser.add_argument(
        "--output", type=Path, default=Path("metricfast-demo.png"), help="the picture, a PNG file"
    )
    info_parser = commands.add_parser("info", help="how this copy was built and what it runs on")
    info_parser.add_argument("--json", action="store_true", help="print one JSON object")
    for name, help_ in _OTHERS.items():
        commands.add_parser(name, help=help_, add_help=False)
    options, rest = parser.parse_known_args(arguments)
    if options.command in _OTHERS:
        print(f"metricfast {options.command} {lacks}", file=sys.stderr)
        return 1
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if options.command == "info":
        places = {"headers": metricfast.get_include(), "library": metricfast.get_library_dir()}
        found = metricfast.build_info() | places
        told = [f"{key}: {value}" for key, value in found.items()]
        print(json.dumps(found) if options.json else "\n".join(told))
        return 0
    if options.output.suffix != ".png" or not options.output.parent.is_dir():
        demo_parser.error(f"argument --output: no PNG file can be written at {options.output}")
    if options.all is not None:
        return compare_all(options.all or DATA)
    run_demo = importlib.import_module("metricfast.cli.demo").run_demo
    return int(run_demo(options.output))


def compare_all(names: Sequence[str]) -> int:
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


def _show(done: str) -> None:
    """Show on a terminal which learner was compared last; replaces the line before."""
    if sys.stderr.isatty():
        print(f"\r\033[K{done and f'{done}: done'}", end="", file=sys.stderr, flush=True)
