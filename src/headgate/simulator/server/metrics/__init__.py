"""The metrics page, with the metric names of the simulated engine.

Writes Prometheus text from event counters (`Timings`) and readings of each data-parallel rank.
"""

from headgate.simulator.server.metrics.page import CONTENT_TYPE, MetricsPage
from headgate.simulator.server.metrics.series import Reading, Series, Timings

__all__ = ["CONTENT_TYPE", "MetricsPage", "Reading", "Series", "Timings"]
