"""Plugins that a policy is composed of: filters, scorers and pickers, under their well-known names.

Each gets a cycle (the request, the time, randomness, the prefix index) and the remaining endpoints, and
returns fewer endpoints, a score for each, or one of them. A plugin's state belongs to one pool.
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
