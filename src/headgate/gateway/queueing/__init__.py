"""The queues of a gateway process, on its event loop: `headgate.requests.queueing` decides who goes.

Wakes the queue of each pool, reads from headers how a request wants to wait, and keeps the metrics. A queue
looks who may go at arrivals, first tokens, ends, readings of engines and changes of objects, and when the
timer of its alarm is due.
"""

from headgate.gateway.queueing.queues import Queues

__all__ = ["Queues"]
