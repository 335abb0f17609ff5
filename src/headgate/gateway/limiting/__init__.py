"""Token limits on the data path: tokens are reserved as a request is about to go, and settled at its end.

Of a request whose route is limited, `reserve` says whether it may go, `lines` what its answer tells of the
limit, and `settle` counts what it used. Requests of other routes never come here.
"""

from headgate.gateway.limiting.reserving import reserve, settle
from headgate.requests.limits.headers import lines

__all__ = ["lines", "reserve", "settle"]
