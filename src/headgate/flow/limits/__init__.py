"""Token limits of routes: whether one more request fits, and what was used.

RouteLimits keeps a RouteLimit for each limited route of the snapshot. It reserves tokens for a request on
arrival, or says what is short; the Reservation is settled once, at the end of the request. Input and output
each have a Budget: one that a process keeps for itself, or one on lease from an account that several
processes share.
"""

from headgate.flow.limits.account import Account, Direction
from headgate.flow.limits.budget import Budget, LocalBudget
from headgate.flow.limits.lease_account import Claim, Grant, LeaseAccount
from headgate.flow.limits.leased_budget import LeasedBudget
from headgate.flow.limits.route_limit import MakeBudget, Reservation, RouteLimit, local_budget
from headgate.flow.limits.route_limits import RouteLimits
from headgate.flow.limits.shares import Presence, Share, ShareBook, Standing
from headgate.flow.limits.shortage import Shortage

__all__ = [
    "Account",
    "Budget",
    "Claim",
    "Direction",
    "Grant",
    "LeaseAccount",
    "LeasedBudget",
    "LocalBudget",
    "MakeBudget",
    "Presence",
    "Reservation",
    "RouteLimit",
    "RouteLimits",
    "Share",
    "ShareBook",
    "Shortage",
    "Standing",
    "local_budget",
]
