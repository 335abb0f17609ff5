"""Judging a replay: how a run went over time, and the highest rate that a fleet carries.

Is given the records of runs over a fleet in virtual time. Pure.
"""

from headgate.simulator.replay.search import Found, highest_rate
from headgate.simulator.replay.series import Series, series

__all__ = ["Found", "Series", "highest_rate", "series"]
