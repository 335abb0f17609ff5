"""What is particular to an engine, one file each: its port, metric names, adapter calls, KV events.

Is given the name of an engine or the labels of its Pod, and hands on an Engine, which is data. Whatever holds
for every engine is elsewhere.
"""

from headgate.engines.engine import AdapterCalls, AdapterNames, CacheConfig, Engine, MetricNames
from headgate.engines.naming import named, of_pod

__all__ = ["AdapterCalls", "AdapterNames", "CacheConfig", "Engine", "MetricNames", "named", "of_pod"]
