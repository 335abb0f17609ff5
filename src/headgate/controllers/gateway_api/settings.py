"""Which GatewayClasses are Headgate's, and which addresses their Gateways have."""

from __future__ import annotations

import msgspec

from headgate.api.gateways import CONTROLLER
from headgate.controllers.gateway_api.addresses import AddressSource
from headgate.routing.gateway_api import Place, Settings

OWN_PORTS = (8080, 8081, 9090)
"""Those of the API, the admin page and the metrics, by default."""


class GatewayApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    controller_name: str = CONTROLLER
    """The controllerName of GatewayClasses that are implemented; empty for none."""
    addresses: AddressSource = AddressSource()
    """Of Gateways that name none."""
    service: str = ""
    """[NAMESPACE/]NAME of the Service of Headgate's gateways, whose addresses Gateways have if `addresses` is
    empty."""

    own_ports: tuple[int, ...] = OWN_PORTS
    """Ports that Headgate's gateways need for themselves, at the addresses that Gateways share."""

    @property
    def translation(self) -> Settings:
        """The settings of the translation, which gateways have too."""
        taken = {Place("", port) for port in self.own_ports}
        return Settings(self.controller_name, taken, are_assigned=self.addresses.range is not None)
