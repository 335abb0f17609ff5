"""Engine specifics: metric names and KV transfer.

An Engine is data, looked up by the engine's name or its Pod's labels. With it, this room parses a metrics
page into Figures. The fleet decides what a reading means for an endpoint.
"""

from headgate.engines.engine import AdapterNames, CacheConfig, Engine, MetricNames
from headgate.engines.figures import Figures, Total, read
from headgate.engines.known import KNOWN, POD_LABELS, named, of_page, of_pod
from headgate.engines.page import PageTooLargeError
from headgate.engines.responses import Models, read_models, read_parents

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
    "of_page",
    "of_pod",
    "read",
    "read_models",
    "read_parents",
]
