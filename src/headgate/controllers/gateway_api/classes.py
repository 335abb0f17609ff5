"""What the status of a GatewayClass says, and the features of the Gateway API that Headgate has."""

from __future__ import annotations

from typing import Final

from headgate.api.gateways import GatewayClass
from headgate.controllers.conditions import Finding
from headgate.controllers.findings import ACCEPTED
from headgate.controllers.gateway_api.forming import OfClass

INVALID_PARAMETERS: Final = "InvalidParameters"

FEATURES: Final = (
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayHTTPListenerIsolation",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
    "ReferenceGrant",
)
"""In the names of the Gateway API. The conformance suite tests each of them."""


def of_class(made: GatewayClass) -> OfClass:
    """A class of Headgate's."""
    if (parameters := made.spec.parameters_ref) is not None:
        why = f"spec.parametersRef: Headgate has no parameters of kind {parameters.kind}"
        return OfClass([Finding(ACCEPTED, False, INVALID_PARAMETERS, why)], FEATURES)
    return OfClass([Finding(ACCEPTED, True, "Accepted", "Headgate implements this class")], FEATURES)
