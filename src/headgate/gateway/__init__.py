"""The HTTP shell around the decisions: listener, upstream connections, streaming, retries, access log.

Is given client connections and a stream of routing snapshots; hands requests to endpoints and their answers
back, byte for byte. A request's way is: listener, inspect, exchange (route, pick, retry), upstream, settle.
"""

from headgate.gateway.service import run_gateway
from headgate.gateway.settings import GatewaySettings

__all__ = ["GatewaySettings", "run_gateway"]
