"""Requests that wait until their pool has room for them: the queues of `headgate.flow`, driven by events.

Is given requests that may not go at once; sends each on its way when it is its turn, or tells its client why
not. Nobody is asked twice: what may go is decided at arrivals, first tokens, ends, readings of engines and
changes of objects, and by one timer for each pool.
"""

from headgate.gateway.queueing.pool_queue import PoolQueue
from headgate.gateway.queueing.queues import Queues

__all__ = ["PoolQueue", "Queues"]
