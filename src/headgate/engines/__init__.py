"""What is particular to an engine: its metric names and KV transfer.

Is given the name of an engine or the labels of its Pod, and hands on an Engine, which is data; with that, it
reads a metrics page into Figures. What a reading means for an endpoint is the fleet's.
"""

from headgate.engines.engine import AdapterNames, CacheConfig, Engine, MetricNames
from headgate.engines.figures import Figures, Total, read
from headgate.engines.known import KNOWN, POD_LABELS, named, of_pod
from headgate.engines.page import PageTooLargeError
from headgate.engines.responses import Models, read_models

__all__ = [
    "KNOWN",
    "POD_LABELS",
    "AdapterNames",
    "CacheConfig",
    "Engine",
    "Figures",
    "MetricNames",
    "Models",
    "PageTooLargeError",
    "Total",
    "named",
    "of_pod",
    "read",
    "read_models",
]
