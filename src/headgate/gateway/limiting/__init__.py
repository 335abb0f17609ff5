"""Token limits on the data path: tokens are reserved as a request is about to go, and settled at its end.

Of a request whose route is limited, `reserve` says whether it may go, `settle` counts what it used; `lines`
and `without_limits` are for the head of its answer. Requests of other routes never come here.
"""

from headgate.gateway.limiting.reserving import lines, reserve, settle, without_limits

__all__ = ["lines", "reserve", "settle", "without_limits"]
