"""Trained learners with other parameters, which some have themselves and others in their solver."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from metricfast.callbacks import Checkpoint
from metricfast.solvers import LBFGS, Adam, Subgradient
from metricfast.stopping import HeldOut

_NAMED = {"adam": Adam, "subgradient": Subgradient}


def configured(learner: Any, **params: Any) -> Any:
    """Return a clone with those of the parameters that it has.

    `max_epochs`, `batch_size` and `learning_rate` are of the solver, `fraction` and `patience` of
    held-out points, `checkpoint` is the path of one.
    """
    model = clone(learner)
    known = model.get_params(deep=False)
    if "checkpoint" in known or "solver" not in known:  # not one of a linear map
        renamed = {"fraction": "validation_fraction", "patience": "n_iter_no_change"}
        params = {renamed.get(name, name): value for name, value in params.items()}
        return model.set_params(**{k: v for k, v in params.items() if k in known})
    steps = {k: params.pop(k) for k in ("max_epochs", "batch_size", "learning_rate") if k in params}
    solver = params.get("solver", model.solver)
    if not isinstance(solver, str):
        params["solver"] = clone(solver).set_params(**steps)
    elif solver in _NAMED and steps:
        params["solver"] = _NAMED[solver](**steps)
    elif solver == "lbfgs" and "max_iter" in params and "max_iter" not in known:
        params["solver"] = LBFGS(params["max_iter"], model.tol, 1)
    rule = {k: params.pop(k) for k in ("fraction", "patience") if k in params}
    if rule and params.get("early_stopping", model.early_stopping) is True:
        params["early_stopping"] = HeldOut(**rule)
    if "checkpoint" in params:
        path, others = params.pop("checkpoint"), params.get("callbacks") or model.callbacks or []
        params["callbacks"] = [Checkpoint(path), *others] if path is not None else others
    return model.set_params(**{k: v for k, v in params.items() if k in known})
