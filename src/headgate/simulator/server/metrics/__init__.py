"""The metrics page, in the names of the engine that is simulated.

Given counts of what happened (`Timings`) and readings of each data-parallel rank, it writes Prometheus text.
"""

from headgate.simulator.server.metrics.page import CONTENT_TYPE, MetricsPage
from headgate.simulator.server.metrics.series import Reading, Series, Timings

__all__ = ["CONTENT_TYPE", "MetricsPage", "Reading", "Series", "Timings"]
