"""Section about Gateways of the Gateway API."""

from __future__ import annotations

from typing import Annotated, Literal

from headgate.dataplane.settings import Section, setting


class GatewayApi(Section, frozen=True):
    """Gateways of the Gateway API, which this gateway serves besides the inference API."""

    controller: Annotated[
        str,
        setting(
            "The controllerName of the GatewayClasses whose Gateways are served; empty serves none.",
            live=False,
        ),
    ] = "headgate.dev/gateway-controller"
    addresses: Annotated[
        Literal["own", "assigned"],
        setting(
            "Where Gateways are served that name no address: `own` is at `listen.host`, which they share; "
            "`assigned` is at the addresses in the status of each.",
            live=False,
        ),
    ] = "own"
