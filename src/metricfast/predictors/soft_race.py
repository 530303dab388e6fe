"""The race of embeddings and inputs: validation points choose what a map is trained as."""

from __future__ import annotations

from dataclasses import dataclass

from metricfast._core.types import Integers
from metricfast.embeddings import MLP, Embedding, Linear, Periodic
from metricfast.predictors.soft_course import LARGE, Course
from metricfast.predictors.soft_training import Task, Training

__all__ = ["Winner", "race"]

# Epochs after which the worse half of the racers is given up; of the last racers and a perceptron.
_FIRST_ROUND, _LAST_ROUND = 5, 30
# Standard errors by which a perceptron must be better.
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
    """Choose an embedding and its inputs by successive halving, then try the perceptron.

    Linear and periodic maps race apart, because linear ones take more epochs. In each race, the
    half with lower validation costs is trained on, twice as long, until one is left. The better
    one of both wins.

    `of_scores`: the task, with normal scores in place of the numbers of its points.
    At most `LARGE` points train. If there are no more, the last racers are trained to their ends.
    """
    train, test = split
    some, to_the_end = (train[:LARGE], test), len(train) <= LARGE  # in random order
    racers = {
        name + inputs: Training(of, course, embedding, some, seed)
        for of, inputs in ((task, ""), (of_scores, ", normal scores"))
        for name, embedding in choices.items()
        if not isinstance(embedding, MLP)
    }
    finalists = []
    for kind in (Linear, Periodic):
        left = [name for name, racer in racers.items() if isinstance(racer.embedding, kind)]
        epochs = _FIRST_ROUND
        while len(left) > 1:
            for name in left:
                racers[name].run(f"{label} {name}", epochs)
            left = sorted(left, key=lambda name: racers[name].cost)[: len(left) // 2]
            epochs *= 2
        finalists += left
    for name in finalists:
        racers[name].run(f"{label} {name}", None if to_the_end else _LAST_ROUND)
    winner = min((racers[name] for name in finalists), key=lambda racer: racer.cost)
    for name, embedding in choices.items():
        if isinstance(embedding, MLP):
            racer = Training(task, course.at_most(_LAST_ROUND), embedding, some, seed)
            racers[name] = racer.run(f"{label} {name}")
            if racer.costs and racer.better_than(winner, _CLEARLY):
                winner = racer
    is_final = to_the_end and not isinstance(winner.embedding, MLP)
    return Winner(winner, is_final, {name: racer.cost for name, racer in racers.items()})
