"""Token limits shared by several gateways: leases, Redis, and membership.

Decides where a route's budget is counted, how much of it this process leases, and what it may spend while the
account is unreachable. Input: the limits of routes and a few settings. Output: budgets to reserve tokens
from, metrics, and the condition LimitsShared of ModelRoutes.
"""

from headgate.quota.settings import Settings

__all__ = ["Settings"]
