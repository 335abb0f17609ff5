"""Lists the behaviors of a module, each of which is a function with the world that it happens in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from world_of_scaling import World

Behavior = Callable[[World], Awaitable[None]]


def into(behaviors: list[Behavior]) -> Callable[[Behavior], Behavior]:
    """A decorator that appends to the list."""

    def behavior(test: Behavior) -> Behavior:
        behaviors.append(test)
        return test

    return behavior
