"""Construct iterative learners, and set parameters of these, their solver or stopping rule."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from metricfast import EmbeddingLearner
from metricfast.callbacks import Checkpoint
from metricfast.solvers import LBFGS, SGD, Adam, AdamW, Subgradient
from metricfast.stopping import HeldOut

_NAMED = {"adam": Adam, "adamw": AdamW, "sgd": SGD, "subgradient": Subgradient}


def embedding_learner(*parts: Any, **params: Any) -> EmbeddingLearner:
    """Return an embedding learner with a fixed seed that trains to the end."""
    return EmbeddingLearner(*parts, **{"random_state": 0, "judge": None} | params)


def configured(learner: Any, **params: Any) -> Any:
    """Return a clone with the parameters that it supports.

    `max_epochs`, `batch_size` and `learning_rate` go to the solver if the learner does not have
    them, `fraction` and `patience` to `HeldOut`; `checkpoint` is the path of a checkpoint.
    """
    model = clone(learner)
    known = model.get_params(deep=False)
    if "learners" in known and params.get("judge", "auto") is None:
        del params["judge"]  # a judge chooses the learner
    if "solver" in known and "callbacks" in known:
        solver = params.get("solver", model.solver)
        own = isinstance(solver, str) and "max_epochs" in known
        names = () if own else ("max_epochs", "batch_size", "learning_rate")
        steps = {name: params.pop(name) for name in names if name in params}
        if not isinstance(solver, str):
            taken = solver.get_params()
            steps = {name: value for name, value in steps.items() if name in taken}
            params["solver"] = clone(solver).set_params(**steps)
        elif solver in _NAMED and steps:
            params["solver"] = _NAMED[solver](**steps)
        elif (
            solver == "lbfgs" and "max_iter" in params and not {"max_iter", "max_epochs"} & {*known}
        ):
            params["solver"] = LBFGS(params["max_iter"], model.tol, 1)
        if not own and solver != "lbfgs" and "max_iter" in known:
            for name in ("max_iter", "tol"):  # parameters of "lbfgs" only
                params.pop(name, None)
        elif own and solver == "lbfgs":
            params.pop("learning_rate", None)
        rule = {name: params.pop(name) for name in ("fraction", "patience") if name in params}
        if rule and params.get("early_stopping", model.early_stopping) is True:
            params["early_stopping"] = HeldOut(**rule)
        if "checkpoint" in params:
            path, others = params.pop("checkpoint"), params.get("callbacks", model.callbacks) or []
            others = [each for each in others if not isinstance(each, Checkpoint)]
            params["callbacks"] = others if path is None else [Checkpoint(path), *others]
    return model.set_params(**{name: value for name, value in params.items() if name in known})
