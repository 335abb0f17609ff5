"""Whether a pool has room for one more request.

A Capacity is told which endpoints and which bands there are, and looks at the loads of the endpoints when it
is asked.
"""

from headgate.flow.capacity.capacity import Capacity
from headgate.flow.capacity.predicted import PredictedWork

__all__ = ["Capacity", "PredictedWork"]
