"""The HTTP shell around the decisions, one process: listener, upstream connections, streaming, access log.

Is given client connections and a stream of routing snapshots; hands requests to endpoints and their answers
back, byte for byte. A request's way is: listener, inspect, exchange (route, pick, retry), upstream, settle.

Only the settings are imported with the room: what reads them need not carry the data path.
"""

from headgate.gateway.setting_types import Setting
from headgate.gateway.settings import GatewaySettings

__all__ = ["GatewaySettings", "Setting"]
