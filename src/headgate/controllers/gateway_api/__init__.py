"""Statuses of the Gateway API: GatewayClasses, Gateways, HTTPRoutes, and the parents of InferencePools.

Given the objects and which ports accept connections, it decides what each status says, by the rules of
`routing.gateway_api`, which gateways route by. It writes the statuses of Gateways of Headgate's classes, of
what is attached to them, and nothing of other controllers.
"""

from headgate.controllers.gateway_api.addresses import AddressError, AddressSource, parsed
from headgate.controllers.gateway_api.controller import GatewayApiController, GatewayApiStatistics
from headgate.controllers.gateway_api.settings import GatewayApiSettings

__all__ = [
    "AddressError",
    "AddressSource",
    "GatewayApiController",
    "GatewayApiSettings",
    "GatewayApiStatistics",
    "parsed",
]
