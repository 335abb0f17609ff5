"""Hints of a request for its queue: flow, time objective, and how long it may wait."""

from __future__ import annotations

import math

import msgspec


class QueueHints(msgspec.Struct, frozen=True, kw_only=True):
    """The hints of one request; times are in seconds since its arrival."""

    flow: str
    address: str = ""
    """The client's address, if the flow is its unchecked API key; empty otherwise."""
    objective_s: float = math.inf
    patience_s: float = math.inf
    """The longest time that its client waits."""
    wants_progress: bool = False
