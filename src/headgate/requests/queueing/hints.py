"""What a request asks of its queue: in whose name it comes, how soon it is wanted, how long it waits."""

from __future__ import annotations

import math

import msgspec


class QueueHints(msgspec.Struct, frozen=True, kw_only=True):
    """What one request asks for; times are in seconds since its arrival."""

    flow: str
    address: str = ""
    """Of the client, where the flow is its API key, which nobody has checked; empty otherwise."""
    objective_s: float = math.inf
    patience_s: float = math.inf
    """How long its client waits at most."""
    wants_progress: bool = False
