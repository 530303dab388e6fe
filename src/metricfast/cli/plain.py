"""What needs no package beside those of the library: `demo` and `info`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from sklearn import datasets
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

import metricfast

__all__ = ["run"]

DATA = ("wine", "iris", "breast_cancer", "digits")
_OTHERS = ("compare", "fit", "transform", "predict", "neighbors", "evaluate", "inspect", "bench")


def run(arguments: Sequence[str], missing: Sequence[str] = ()) -> int:
    """Run one of these commands and return its exit code; bad arguments exit with code 2.

    `missing`: packages for want of which the other commands cannot run.
    """
    parser = argparse.ArgumentParser(prog="metricfast", description="Metric learning.")
    commands = parser.add_subparsers(dest="command", required=True)
    demo_parser = commands.add_parser("demo", help="learn metrics, print a table, draw a picture")
    demo_parser.add_argument(
        "--data", choices=DATA, nargs="+", default=DATA, help="data sets; the last is drawn"
    )
    demo_parser.add_argument(
        "--output", type=Path, default=Path("metricfast-demo.png"), help="the picture, a PNG file"
    )
    info_parser = commands.add_parser("info", help="how this copy was built and what it runs on")
    info_parser.add_argument("--json", action="store_true", help="print one JSON object")
    for name in _OTHERS:
        commands.add_parser(name, help="needs the extra metricfast[cli]", add_help=False)
    options, rest = parser.parse_known_args(arguments)
    if options.command in _OTHERS:
        lacks = f"lacks {', '.join(missing)}: pip install 'metricfast[cli]'"
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
    return demo(options.data, options.output)


def demo(names: Sequence[str], output: Path) -> int:
    """Compare the learners that suit each data set, and draw a 2-D embedding of the last."""
    for name in names:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        found = metricfast.compare(
            X, y, n_neighbors=3, random_state=0, callbacks=[lambda row: _tell(row.learner)]
        )
        _tell("")
        print(f"\n{name}: {found}", flush=True)
        if found.interrupted_:
            return 130
    try:
        plotting = importlib.import_module("metricfast.plotting")
    except ImportError as error:
        print(f"no picture: {error}", file=sys.stderr)
        return 0
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    units = clone(found.best_estimator_[:-1]).fit(X_train, y_train)
    X_train, X_test = units.transform(X_train), units.transform(X_test)
    nca = metricfast.NCA(n_components=2, random_state=0).fit(X_train, y_train)
    figure = plotting.plot_before_after(
        PCA(2).fit(X_train).transform(X_test),
        nca.transform(X_test),
        y_test,
        titles=("PCA to 2", "NCA to 2"),
    )
    figure.savefig(output, dpi=100)
    print(f"held-out {names[-1]} in two dimensions, before and after: {output.resolve()}")
    return 0


def _tell(done: str) -> None:
    """Show on a terminal what is done, in the place of what was before."""
    if sys.stderr.isatty():
        print(f"\r\033[K{done and f'{done}: done'}", end="", file=sys.stderr, flush=True)
