"""Which of the requests that wait for a pool goes next.

A FlowQueue is told of each request that comes, goes, or is done, and asked who is next whenever there may be
room. It is a state machine: it waits for nothing, and says itself when to ask again.
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
