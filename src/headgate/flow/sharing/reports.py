"""What a process reports of its queue of one pool, and its response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

NO_BOUND = -1


class Waits(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What is queued in one process, in one band or in all, and the limits of all processes together."""

    requests: int = 0
    bytes: int = 0
    came: int = 0
    """Requests that arrived to wait since the last report, including rejected ones."""
    max_requests: int = NO_BOUND
    max_bytes: int = NO_BOUND
    part_requests: int = NO_BOUND
    """The part that this process uses."""
    part_bytes: int = NO_BOUND


class Backlog(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Queued work of one flow."""

    priority: int
    flow: str
    weight: float
    work: int


class Charge(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a flow used since the last report. All in tokens, except for the requests."""

    priority: int
    flow: str
    sent: int = 0
    """Work of its queued requests that were sent, plus corrections when others used more or less than
    expected."""
    prompt: int = 0
    output: int = 0
    cached: int = 0
    requests: int = 0
    """Finished requests, which used the prompt, output and cached tokens."""


class PoolReport(msgspec.Struct, frozen=True, kw_only=True):
    """Report of one process and pool."""

    all: Waits = Waits()
    bands: Mapping[int, Waits] = {}
    backlog: Sequence[Backlog] = ()
    """The flows with the most queued requests."""
    fullness: float | None = None
    """Fraction of the pool's capacity that its requests in flight take, if that is counted."""
    room: float = 0.0
    """Fraction of the capacity that it uses."""
    turn: int = 0
    """Turn of the share that it uses; 0 if it has none."""
    charges: Sequence[Charge] = ()


class Part(msgspec.Struct, frozen=True, array_like=True):
    """How much may be queued in one process; NO_BOUND is no limit."""

    requests: int = NO_BOUND
    bytes: int = NO_BOUND


class PoolShare(msgspec.Struct, frozen=True, kw_only=True):
    """What one process may do until its next share."""

    all: Part = Part()
    bands: Mapping[int, Part] = {}
    """Bands that any process has reported."""
    room: float = 1.0
    """Its fraction of the pool's capacity, or of a rate."""
    turn: int = 0
    """Sequence number of the pool's shares."""
    elsewhere: float = 0.0
    """Fraction of the pool's capacity that requests of other processes take, if that is counted."""
    waiting_elsewhere: int | None = None
    """The highest priority queued in peers; None if nothing is."""
    processes: int = 1
    """Peers with queued requests, and this process."""
    charges: Sequence[Charge] = ()
    """What flows used in other processes since the last share."""
