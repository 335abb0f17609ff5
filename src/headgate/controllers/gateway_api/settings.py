"""Which GatewayClasses are Headgate's, and which addresses their Gateways have."""

from __future__ import annotations

import msgspec

from headgate.api.gateways import CONTROLLER
from headgate.controllers.gateway_api.addresses import AddressSource
from headgate.routing.gateway_api import Settings


class GatewayApiSettings(msgspec.Struct, frozen=True, kw_only=True):
    controller_name: str = CONTROLLER
    """The controllerName of GatewayClasses that are implemented."""
    addresses: AddressSource = AddressSource()
    """Of Gateways that name none."""
    service: str = ""
    """[NAMESPACE/]NAME of the Service of Headgate's gateways, whose addresses Gateways have if `addresses` is
    empty."""

    @property
    def translation(self) -> Settings:
        """The settings of the translation, which gateways have too."""
        return Settings(self.controller_name, are_assigned=self.addresses.range is not None)
