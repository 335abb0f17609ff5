"""What a proxy says about endpoints: which ones may serve a request, and which one did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headgate import extproc
from headgate.picker.replies import NAMESPACE
from headgate.requests.subset import Subset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headgate.fleet import EndpointState
    from headgate.picker.request import ProxiedRequest

_SUBSET_NAMESPACE: Final = "envoy.lb.subset_hint"
_SUBSET_KEY: Final = "x-gateway-destination-endpoint-subset"
_SERVED_KEY: Final = "x-gateway-destination-endpoint-served"
_UPSTREAM_ADDRESS: Final = "upstream.address"
_SOURCE_ADDRESS: Final = "source.address"
CONFORMANCE_HEADER: Final = b"test-epp-endpoint-selection"
"""Names the endpoints to pick, in conformance tests."""


def subset(metadata: bytes) -> Subset | None:
    """The endpoints that may serve the request; None for all. Raises WireError."""
    if not metadata:
        return None
    found = extproc.metadata(metadata, _SUBSET_NAMESPACE)
    if found is None or _SUBSET_KEY not in found:
        return None
    return Subset(_names(found[_SUBSET_KEY]))


def conformance_subset(request: ProxiedRequest) -> Subset | None:
    """The endpoints that a conformance test names."""
    if not request.has(CONFORMANCE_HEADER):
        return None
    return Subset(_names(request.header(CONFORMANCE_HEADER)))


def served(metadata: bytes, attributes: bytes) -> str:
    """The address of the endpoint that responded; "" if the proxy does not say. Raises WireError."""
    if metadata:
        found = extproc.metadata(metadata, NAMESPACE)
        if found is not None and (name := found.get(_SERVED_KEY)):
            return str(name)
    if attributes:
        address = extproc.attributes(attributes).get(_UPSTREAM_ADDRESS)
        return str(address) if address else ""
    return ""


def source(attributes: bytes) -> str:
    """The address of the client, without its port; "" if the proxy does not say. Raises WireError."""
    address = extproc.attributes(attributes).get(_SOURCE_ADDRESS) if attributes else None
    return str(address).rpartition(":")[0].strip("[]") if address else ""


def endpoint_at(address: str, loads: Iterable[EndpointState]) -> EndpointState | None:
    return next((load for load in loads if load.endpoint.address == address), None)


def _names(value: Any) -> list[str]:
    """Addresses from a list, or from a text with commas."""
    texts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return [name for text in texts if isinstance(text, str) and (name := text.strip())]
