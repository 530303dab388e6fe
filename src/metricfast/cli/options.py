"""What options of several commands are, and the values that they take."""

from __future__ import annotations

import codecs
import functools
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from sklearn.base import BaseEstimator

import metricfast.learners as learners
from metricfast.cli.format import Format
from metricfast.comparison.candidates import CLASSES, CONTINUOUS, DISTANCES, PREDICTORS
from metricfast.comparison.labels import Labels

__all__ = [
    "ANY_LEARNER",
    "FILE",
    "LEARNER",
    "OUTPUT",
    "check_suited",
    "learner_of",
    "of_data",
    "of_files",
    "shared",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
OUTPUT = click.Path(dir_okay=False, path_type=Path)


class _Learner(click.ParamType):  # type: ignore[type-arg]
    """A learner by its name, in letters of either case, with or without hyphens and _Supervised."""

    name = "learner"

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {_short(name): name for name in names}

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        """Return the name of the class."""
        name = self._names.get(_short(value))
        if name is None:
            known = {_short(each): each for each in PREDICTORS}
            if _short(value) in known:
                self.fail(_not_held(known[_short(value)]), param, ctx)
            self.fail(f"{value!r} is none of {', '.join(sorted(self._names))}.", param, ctx)
        return name

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
        """Complete a name."""
        del ctx, param
        return [CompletionItem(n) for n in sorted(self._names) if n.startswith(incomplete.lower())]


def _short(name: object) -> str:
    """Return a name without what need not be typed: LMNN, lmnn; nca-classifier, NCAClassifier."""
    letters = str(name).lower().replace("-", "").replace("_", "")
    return letters.removesuffix("supervised")


def _not_held(name: str) -> str:
    """Say why a predictor is not fitted to a file, and what to do."""
    instead = {"NCARegressor": "mlkr", "NCAClassifier": "nca", "MultiMetricLMNN": "lmnn"}[name]
    return (
        f"{name} predicts by maps and by all of its training rows, which a model file does not "
        f"hold. `metricfast compare --learner {name}` judges it, and Python keeps it by pickle or "
        f"joblib. Or `metricfast fit --learner {instead}`, then `metricfast predict MODEL DATA "
        "--database ROWS`."
    )


ANY_LEARNER = _Learner((*CLASSES, *CONTINUOUS, *DISTANCES))
# What a model file can hold.
LEARNER = _Learner(name for name in (*CLASSES, *CONTINUOUS) if name not in PREDICTORS)


def check_suited(names: Iterable[str], labels: Labels) -> None:
    """Raise ValueError for a learner of classes where labels are continuous."""
    wrong = [name for name in names if name not in (*CONTINUOUS, *DISTANCES)]
    suited = [name for name in CONTINUOUS if name not in PREDICTORS]
    if wrong and labels.continuous:
        raise ValueError(
            f"labels look continuous, and {', '.join(wrong)} learns from classes: choose among "
            f"{', '.join(suited)}, or say --classes where the numbers name classes."
        )


def learner_of(
    name: str, settings: tuple[str, ...], seed: int, n_jobs: int | None
) -> BaseEstimator:
    """Return a learner with parameters given as name=value."""
    learner: BaseEstimator = getattr(learners, name)()
    known = learner.get_params(deep=False)
    chosen: dict[str, Any] = {"random_state": seed, "n_jobs": n_jobs}
    chosen = {key: value for key, value in chosen.items() if key in known}
    for setting in settings:
        key, is_there, text = setting.partition("=")
        if not is_there or key not in known:
            raise click.BadParameter(
                f"{setting!r} must be name=value, of a parameter of {name}: {', '.join(known)}.",
                param_hint="--set",
            )
        try:
            chosen[key] = json.loads(text)
        except ValueError:
            chosen[key] = {"None": None, "True": True, "False": False}.get(text, text)
    return learner.set_params(**chosen)


def shared(command: _Command) -> _Command:
    """Add the options of all commands that compute."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print one JSON object."),
        click.option("--n-jobs", type=int, help="Threads; -1: all processors."),
    ):
        command = option(command)
    return command


def _sign(ctx: Any, param: click.Parameter, value: str | None) -> str | None:
    """Return a single character, a tabulator where it is named."""
    del ctx
    if value is None or (not value and param.name == "thousands"):
        return value
    sign = {"\\t": "\t", "tab": "\t"}.get(value, value)
    if len(sign) != 1:
        raise click.BadParameter(f"it must be a single character, got {value!r}.")
    return sign


def _encoding(ctx: Any, param: click.Parameter, value: str | None) -> str | None:
    del ctx, param
    try:
        return value if value is None else codecs.lookup(value).name
    except LookupError as error:
        raise click.BadParameter(f"{value!r} is no encoding: utf-8, latin-1, …") from error


def of_files(command: _Command) -> Callable[..., Any]:
    """Add the options that say how CSV files are read, as the argument `given`."""

    @functools.wraps(command)
    def reading(
        *, sep: str | None, decimal: str | None, thousands: str | None, encoding: str | None,
        na: tuple[str, ...], **others: Any,
    ) -> Any:  # fmt: skip
        if thousands and thousands == (decimal or ""):
            raise click.BadParameter("it is the decimal sign.", param_hint="--thousands")
        return command(given=Format(sep, decimal, thousands, encoding, na), **others)

    found: Callable[..., Any] = reading
    for option in (
        click.option(
            "--na", multiple=True, metavar="TEXT", help="Text that means a missing value."
        ),
        click.option("--encoding", callback=_encoding, help="Of the text: utf-8, latin-1, …"),
        click.option(
            "--thousands", callback=_sign, metavar="SIGN", help='Between thousands; "": none.'
        ),
        click.option("--decimal", type=click.Choice([".", ","]), help="The decimal sign."),
        click.option(
            "--sep", callback=_sign, metavar="SIGN", help="Between the values of a CSV file."
        ),
    ):
        found = option(found)
    return found


def of_data(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of commands that learn from a table."""
    kinds = "--continuous/--classes"
    for option in (
        click.argument("data", type=FILE),
        click.option("--target", required=True, help="The column of labels."),
        click.option("--drop", multiple=True, metavar="COLUMN", help="Leave a column out."),
        click.option(
            "--categorical", multiple=True, metavar="COLUMN", help="Numbers that name categories."
        ),
        click.option(kinds, default=None, help="What labels are; by default it is looked for."),
        click.option(
            "--scale",
            type=click.Choice(["auto", "yes", "no"]),
            default="auto",
            help="Whether to standardise features.",
        ),
        click.option("--seed", type=int, default=0, show_default=True),
    ):
        command = option(command)
    return shared(of_files(command))
