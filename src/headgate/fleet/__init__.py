"""What is known of every endpoint right now: the work in flight on it, and how it has answered lately.

Is told of each request that starts and ends, and hands the scheduler one load per endpoint. State lives here
and outlives the snapshots that routing makes.
"""

from headgate.fleet.ejection import EjectionPolicy, ejected, hung
from headgate.fleet.ledger import Booking, EndpointLoad, Ledger
from headgate.fleet.retry_budget import RetryBudget, RetryBudgetPolicy

__all__ = [
    "Booking",
    "EjectionPolicy",
    "EndpointLoad",
    "Ledger",
    "RetryBudget",
    "RetryBudgetPolicy",
    "ejected",
    "hung",
]
