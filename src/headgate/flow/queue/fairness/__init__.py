"""Fairness policies: which flow of a band is next.

A Fairness follows the flows with queued requests, what is sent, and what requests have used when they end; it
returns the flow whose turn it is.
"""

from __future__ import annotations

from headgate.flow.queue.fairness.attained import LeastAttained
from headgate.flow.queue.fairness.deficit import DeficitRoundRobin
from headgate.flow.queue.fairness.fairness import Fairness, Usage
from headgate.flow.queue.fairness.rotation import RoundRobin
from headgate.flow.queue.fairness.sessions import SessionBoost
from headgate.flow.queue.fairness.strict import GlobalStrict
from headgate.flow.queue.fairness.windowed import WindowedUsage

__all__ = [
    "DeficitRoundRobin",
    "Fairness",
    "GlobalStrict",
    "LeastAttained",
    "RoundRobin",
    "SessionBoost",
    "Usage",
    "WindowedUsage",
]
