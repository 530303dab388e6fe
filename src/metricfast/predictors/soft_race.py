"""The race of embeddings and inputs: validation points choose what a map is trained as."""

from __future__ import annotations

from dataclasses import dataclass

from metricfast._core.types import Integers
from metricfast.embeddings import MLP, Embedding
from metricfast.predictors.soft_course import LARGE, Course
from metricfast.predictors.soft_training import Task, Training

__all__ = ["Winner", "race"]

# Epochs after which the worse half of several embeddings is given up; epochs of a perceptron.
_FIRST_ROUND, _PERCEPTRON_ROUND = 15, 30
# Standard errors by which other inputs, or a perceptron, must be better.
_CLEARLY = 0.5


@dataclass(frozen=True)
class Winner:
    """The winner of a race.

    Attributes
    ----------
    training : Training
    is_final : bool
        Whether it was trained on all points, to its end.
    costs : dict of str to float
        The least cost of each racer.
    """

    training: Training
    is_final: bool
    costs: dict[str, float]


def race(
    task: Task, of_scores: Task, course: Course, choices: dict[str, Embedding],
    split: tuple[Integers, Integers], seed: int, label: str,
) -> Winner:  # fmt: skip
    """Race embeddings of numbers, then the best with their normal scores, then the perceptron.

    `of_scores`: the task, with normal scores in place of the numbers of its points.
    At most `LARGE` points train. Fewer are all there are: then racers are trained to the end,
    except for the perceptron, which is trained for a few epochs.
    """
    train, test = split
    some, to_the_end = (train[:LARGE], test), len(train) <= LARGE  # in random order
    racers = {
        name: Training(task, course, embedding, some, seed)
        for name, embedding in choices.items()
        if not isinstance(embedding, MLP)
    }
    best = _best_of(racers, label, to_the_end=to_the_end)
    epochs = None if to_the_end else 2 * _FIRST_ROUND
    later = [(f"{best}, normal scores", choices[best], course, epochs)]
    later += [
        (name, embedding, course.at_most(_PERCEPTRON_ROUND), None)
        for name, embedding in choices.items()
        if isinstance(embedding, MLP)
    ]
    winner = racers[best]
    for name, embedding, own, most in later:
        of = task if isinstance(embedding, MLP) else of_scores
        racer = racers[name] = Training(of, own, embedding, some, seed)
        racer.run(f"{label} {name}", most)
        if racer.costs and racer.better_than(winner, _CLEARLY):
            winner = racer
    is_final = to_the_end and not isinstance(winner.embedding, MLP)
    return Winner(winner, is_final, {name: racer.cost for name, racer in racers.items()})


def _best_of(racers: dict[str, Training], label: str, *, to_the_end: bool) -> str:
    """Train embeddings by successive halving within each kind; return the name of the best.

    Of each kind the half that predicts held-out points better is trained on, twice as long.

    With `to_the_end`, the last of each kind is trained to its end, and a later kind must be better
    than the first by more than a standard error. Without it, the last of each kind is trained for
    one more round, and the lowest cost wins: there are many points to judge by.
    """
    kinds: dict[type, list[str]] = {}
    for name, racer in racers.items():
        kinds.setdefault(type(racer.embedding), []).append(name)
    best = ""
    for names in kinds.values():
        left, epochs = names, _FIRST_ROUND
        while len(left) > 1:
            for name in left:
                racers[name].run(f"{label} {name}", epochs)
            left = sorted(left, key=lambda name: racers[name].cost)[: len(left) // 2]
            epochs *= 2
        name = left[0]
        racer = racers[name].run(f"{label} {name}", None if to_the_end else 2 * _FIRST_ROUND)
        if not best or (racer.costs and _is_better(racer, racers[best], surely=to_the_end)):
            best = name
    return best


def _is_better(racer: Training, other: Training, *, surely: bool) -> bool:
    return racer.better_than(other) if surely else racer.cost < other.cost
