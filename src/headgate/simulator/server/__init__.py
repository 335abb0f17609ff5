"""The live shell around the step model: an OpenAI-compatible HTTP server with vLLM's metrics.

Batches and times are the model's decisions; the server turns HTTP requests into token counts, and sends
tokens as they fall due. When a client disconnects, its request in the model ends immediately.
"""

from headgate.simulator.server.adapters import Adapter, parse_module
from headgate.simulator.server.failures.settings import FAILURE_TYPES, FailureSettings
from headgate.simulator.server.ranks import Ranks
from headgate.simulator.server.serve import Served, listen, run, running
from headgate.simulator.server.settings import Api, KvEventsConfig, Role, ServerSettings, read_kv_events

__all__ = [
    "FAILURE_TYPES",
    "Adapter",
    "Api",
    "FailureSettings",
    "KvEventsConfig",
    "Ranks",
    "Role",
    "Served",
    "ServerSettings",
    "listen",
    "parse_module",
    "read_kv_events",
    "run",
    "running",
]
