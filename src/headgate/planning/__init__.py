"""Decides which hardware serves each model, and with how many replicas.

A plan gets demands, objectives, profiles of engines and the available accelerators, and returns replicas
with their predicted latencies. `system` reads a JSON description of all of it, and `solving` solves it. The
room is pure: rates, limits and the current state are arguments.
"""

from headgate.planning.demand_model import served_share
from headgate.planning.planner import plan
from headgate.planning.problem import Assignment, Demand, Option, Plan, Problem
from headgate.planning.queueing import Analysis, analyze
from headgate.planning.replica import ModelError, Profile, Replica
from headgate.planning.sizing import Infeasible, Sizer, Sizing, Targets, fewest, size

__all__ = [
    "Analysis",
    "Assignment",
    "Demand",
    "Infeasible",
    "ModelError",
    "Option",
    "Plan",
    "Problem",
    "Profile",
    "Replica",
    "Sizer",
    "Sizing",
    "Targets",
    "analyze",
    "fewest",
    "plan",
    "served_share",
    "size",
]
