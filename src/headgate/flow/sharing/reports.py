"""What a process tells of its queue of one pool, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

NO_BOUND = -1


class Waits(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What waits in one process, in one band or in all of them, and what is set for all processes."""

    requests: int = 0
    bytes: int = 0
    came: int = 0
    """Requests that came to wait since the last report; those that found no place are among them."""
    max_requests: int = NO_BOUND
    max_bytes: int = NO_BOUND
    part_requests: int = NO_BOUND
    """What this process goes by."""
    part_bytes: int = NO_BOUND


class Backlog(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What waits of one flow."""

    priority: int
    flow: str
    weight: float
    work: int


class Charge(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a flow had since the last report. All in tokens, but for the requests."""

    priority: int
    flow: str
    sent: int = 0
    """Work of its requests that had waited and went, and what others took more or less than that was."""
    prompt: int = 0
    output: int = 0
    cached: int = 0
    requests: int = 0
    """Those that are over, which took the prompt, the output and the cached tokens."""


class PoolReport(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process and pool."""

    all: Waits = Waits()
    bands: Mapping[int, Waits] = {}
    backlog: Sequence[Backlog] = ()
    """Of flows with the most waiting."""
    fullness: float | None = None
    """The share of the pool's room that its requests in flight take, where that is counted."""
    room: float = 0.0
    """The share of the room that it goes by."""
    turn: int = 0
    """When it was told the parts and the room that it goes by; 0 if it was told nothing."""
    charges: Sequence[Charge] = ()


class Part(msgspec.Struct, frozen=True, array_like=True):
    """How much may wait in one process; NO_BOUND is as much as comes."""

    requests: int = NO_BOUND
    bytes: int = NO_BOUND


class PoolShare(msgspec.Struct, frozen=True, kw_only=True):
    """What one process may do until it is told again."""

    all: Part = Part()
    bands: Mapping[int, Part] = {}
    """Those of which any process has told."""
    room: float = 1.0
    """Its share of a pool's room that is counted, or of a rate."""
    turn: int = 0
    """Counts what is told of the pool."""
    elsewhere: float = 0.0
    """The share of the pool's room that requests of other processes take, where that is counted."""
    charges: Sequence[Charge] = ()
    """What flows had in other processes since it was last told."""
