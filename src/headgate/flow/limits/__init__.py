"""Token limits: whether a route has tokens left for one more request, and what it has used.

A limit has two directions, input and output, each with a Budget of its own: one that a process keeps for
itself, or one on lease from an account that several processes share.
"""

from headgate.flow.limits.budget import Budget, LocalBudget
from headgate.flow.limits.lease import LeasedBudget
from headgate.flow.limits.lease_account import Claim, Grant, LeaseAccount

__all__ = ["Budget", "Claim", "Grant", "LeaseAccount", "LeasedBudget", "LocalBudget"]
