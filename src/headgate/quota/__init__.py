"""Token limits held together by several gateways: leases, Redis, and who takes part.

Decides where the budget of a route is counted, how much of it this process leases, and what it may spend
while the account is out of reach. It is given the limits of routes and a few settings; it hands on budgets
to reserve tokens from, metrics, and the condition LimitsShared of ModelRoutes.
"""

from headgate.quota.settings import Settings

__all__ = ["Settings"]
