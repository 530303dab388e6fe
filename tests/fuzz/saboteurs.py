"""Deliberately faulty functions, each named by its expected verdict."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .arguments import Factory, Role, array
from .targets import Target


def _points(world: Any) -> Any:
    return array(5, 2, values=("normal",), dtype=("float64",), form=("C",))


def _masked(world: Any) -> Any:
    return _points(world).map(lambda spec: spec._replace(poison="masked"))


def _spin(X: Any) -> None:
    while True:
        pass


def _change(X: Any) -> None:
    X += 1


def _raise(error: BaseException) -> Callable[..., Any]:
    def call(X: Any) -> None:
        raise error

    return call


def _target(name: str, call: Any, draw: Factory = _points, oracle: Any = None) -> Target:
    return Target(name, call, {"X": Role(draw, may_be_spoilt=False)}, oracle)


TARGETS = {
    target.name: target
    for target in (
        _target("crash", lambda X: os.abort()),
        _target("crash by exit", lambda X: os._exit(0)),
        _target("hang", _spin),
        _target("hang asleep", lambda X: time.sleep(1e6)),
        _target("silent NaN", lambda X: {"a": (np.full(2, np.nan),)}),
        _target("wrong", lambda X: X, oracle=lambda a, result: "should be 3"),
        _target("wrong to accept", lambda X: X[:1], _masked),
        _target("changed input", _change),
        _target("error from inside", _raise(IndexError("X: index 5 is out of bounds"))),
        _target("error from inside, nameless", _raise(ValueError("'<' not supported"))),
        _target("error from inside, dump", _raise(TypeError("X: incompatible function arguments"))),
        _target("error from inside, exit", _raise(SystemExit("X"))),
        _target("clear error", _raise(ValueError("X must be larger"))),
        _target("no complaint", lambda X: X),
        _target("right", lambda X: X, oracle=lambda a, result: None),
        _target("the fuzzer failed", lambda X: X, oracle=lambda a, result: 1 / 0),
    )
}
