"""What is known of every endpoint right now: the work in flight on it, and whether it answered lately.

Is told of each request that starts and ends, and hands the scheduler one load per endpoint. State lives here
and outlives the snapshots that routing makes.
"""

from headgate.fleet.ledger import EndpointLoad, Ledger

__all__ = ["EndpointLoad", "Ledger"]
