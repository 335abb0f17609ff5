"""Decides which hardware serves each model, and with how many replicas.

It gets profiles of engines, mean requests and objectives, and returns the rate that a replica can take, with
its latencies. The room is pure: rates, limits and the current state are arguments.
"""

from headgate.planning.queueing import Analysis, analyze
from headgate.planning.replica import ModelError, Profile, Replica
from headgate.planning.sizing import Infeasible, Sizer, Sizing, Targets, fewest, size

__all__ = [
    "Analysis",
    "Infeasible",
    "ModelError",
    "Profile",
    "Replica",
    "Sizer",
    "Sizing",
    "Targets",
    "analyze",
    "fewest",
    "size",
]
