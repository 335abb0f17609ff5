"""Gateways of the Gateway API on the data path: their ports, TLS, routes, filters, and Services.

Input: entry points of `routing.gateway_api`, and connections. A request that a rule leads to a pool is handed
to the same exchange as any other; one to a Service is forwarded as it arrives.
"""

from headgate.gateway.gateway_api.followed import FollowedEntries
from headgate.gateway.gateway_api.ports import Ports
from headgate.gateway.gateway_api.shared import Shared

__all__ = ["FollowedEntries", "Ports", "Shared"]
