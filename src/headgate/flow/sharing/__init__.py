"""Divides the limits of queues among processes: the workers of a gateway, or several gateways or pickers.

Input: what is queued, runs and was served in each process. Output: each process's part of every limit, and
what flows used elsewhere. A `Hub` decides for all workers of a gateway; peers have none, and each has an
`Exchange`. It decides for the next tenth of a second or so: no process waits for a response.
"""

from headgate.flow.sharing.charges import Charges
from headgate.flow.sharing.dividing import first_part
from headgate.flow.sharing.exchange import Exchange
from headgate.flow.sharing.hub import Hub
from headgate.flow.sharing.reports import Backlog, Charge, Part, PoolReport, PoolShare, Waits

__all__ = [
    "Backlog",
    "Charge",
    "Charges",
    "Exchange",
    "Hub",
    "Part",
    "PoolReport",
    "PoolShare",
    "Waits",
    "first_part",
]
