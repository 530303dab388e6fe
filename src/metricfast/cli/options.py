"""What options of several commands are, and the values that they take."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem
from sklearn.base import BaseEstimator

import metricfast.learners as learners
from metricfast.comparison.candidates import CLASSES, CONTINUOUS, PREDICTORS

__all__ = ["ANY_LEARNER", "FILE", "LEARNER", "OUTPUT", "learner_of", "of_data", "shared"]

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


ANY_LEARNER = _Learner((*CLASSES, *CONTINUOUS))
# What a model file can hold.
LEARNER = _Learner(name for name in (*CLASSES, *CONTINUOUS) if name not in PREDICTORS)


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


def of_data(command: _Command) -> _Command:
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
    return shared(command)
