"""Which endpoint of a pool serves a request.

Is given the loads of the pool's endpoints and hands on one of them. Pure: time and randomness are arguments.
"""

from headgate.scheduling.least_work import least_work

__all__ = ["least_work"]
