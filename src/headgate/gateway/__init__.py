"""The HTTP data path of one process: listener, upstream connections, streaming, access log.

Input: client connections, and routing snapshots. Output: requests to endpoints, and their responses to
clients. A request passes the listener, the exchange (route, pick, retry), an upstream connection, and
settlement.

The package imports only its settings, so that readers of settings need not load the data path.
"""

from headgate.gateway.setting_types import Setting
from headgate.gateway.settings import GatewaySettings

__all__ = ["GatewaySettings", "Setting"]
