"""Token limits: whether a route has tokens left for one more request, and what it has used.

A limit has two directions, input and output, each with a Budget of its own.
"""

from headgate.flow.limits.budget import Budget, LocalBudget

__all__ = ["Budget", "LocalBudget"]
