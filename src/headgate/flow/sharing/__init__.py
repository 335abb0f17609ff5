"""What each of several processes may do so that together they keep to what is set for one gateway.

Is given what waits, runs and was served in each process; hands on how much of each bound is whose, and what
flows had elsewhere. Decides for the next tenth of a second or so: nobody waits for an answer.
"""

from headgate.flow.sharing.charges import Charges
from headgate.flow.sharing.dividing import first_part
from headgate.flow.sharing.hub import Hub
from headgate.flow.sharing.reports import Backlog, Charge, Part, PoolReport, PoolShare, Waits

__all__ = [
    "Backlog",
    "Charge",
    "Charges",
    "Hub",
    "Part",
    "PoolReport",
    "PoolShare",
    "Waits",
    "first_part",
]
