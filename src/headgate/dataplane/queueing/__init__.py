"""The queues of a gateway process on its event loop; `headgate.requests.queueing` makes the decisions.

Wakes the queue of each pool, reads queue hints from headers, and records metrics. A queue checks which
requests may be sent when requests arrive, get their first token or end, when readings of engines or objects
change, and when its alarm is due.
"""

from headgate.dataplane.queueing.queues import Queues

__all__ = ["Queues"]
