"""Picks the next of the requests queued for a pool.

A FlowQueue is notified of requests that arrive, leave or end, and asked for the next one whenever there may
be capacity. It is a state machine: it never waits, and says itself when to ask again.
"""

from headgate.flow.queue.bounds import Bounds
from headgate.flow.queue.explain import BandRow, FlowRow, QueueView, RequestRow
from headgate.flow.queue.fairness import Usage
from headgate.flow.queue.queue import FlowQueue
from headgate.flow.queue.settings import (
    FAIRNESS,
    ORDERINGS,
    BandSettings,
    FlowSettings,
    SessionSettings,
    WindowSettings,
)
from headgate.flow.queue.waiting import Dropped, Reason, Waiting

__all__ = [
    "FAIRNESS",
    "ORDERINGS",
    "BandRow",
    "BandSettings",
    "Bounds",
    "Dropped",
    "FlowQueue",
    "FlowRow",
    "FlowSettings",
    "QueueView",
    "Reason",
    "RequestRow",
    "SessionSettings",
    "Usage",
    "Waiting",
    "WindowSettings",
]
