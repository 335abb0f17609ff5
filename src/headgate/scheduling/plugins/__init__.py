"""The classics by their known names: filters, scorers and pickers that a policy is composed of.

Each is given a cycle (the request, the time, chance, what caches hold) with the endpoints that are left, and
answers with fewer endpoints, a score for each, or one of them. What a plugin remembers is of one pool.
"""

from headgate.scheduling.plugins import signals, users
from headgate.scheduling.plugins.plugin import (
    Cycle,
    Filter,
    Loads,
    NoParameters,
    NoPrefixes,
    Picker,
    Plugin,
    PrefixIndex,
    Scorer,
)

__all__ = [
    "Cycle",
    "Filter",
    "Loads",
    "NoParameters",
    "NoPrefixes",
    "Picker",
    "Plugin",
    "PrefixIndex",
    "Scorer",
    "signals",
    "users",
]
