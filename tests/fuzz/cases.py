"""Cases: calls with consistent arguments, and calls with one or all arguments invalid."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import strategies as st

from .arguments import spoilt, worlds
from .targets import Target


class Case(NamedTuple):
    """One call: the name of its target, and the description of each argument."""

    target: str
    arguments: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.target}({', '.join(f'{k}={v!r}' for k, v in self.arguments.items())})"


@st.composite
def cases(draw: Any, target: Target) -> Case:
    world = draw(worlds(target.widths))
    # Give only a few of many parameters.
    given, some = (draw(st.integers(0, 2 ** len(target.roles) - 1)) for _ in range(2))
    if len(target.roles) > 12:
        given &= some
    arguments = {
        name: draw(role.draw(world))
        for i, (name, role) in enumerate(target.roles.items())
        if role.required or given >> i & 1
    }
    mood = draw(st.sampled_from(("fair",) * 5 + ("spoilt",) * 4 + ("wild",)))
    names = [name for name in arguments if target.roles[name].may_be_spoilt]
    if names and mood != "fair":
        chosen = names if mood == "wild" else [draw(st.sampled_from(names))]
        arguments |= {name: draw(spoilt(name, arguments[name])) for name in chosen}
    return Case(target.name, arguments)
