"""What is wrong with a Gateway, listener, route or backend, with the reasons that the Gateway API defines."""

from __future__ import annotations

from typing import Final

import msgspec

ACCEPTED: Final = "Accepted"
CONFLICTED: Final = "Conflicted"
PROGRAMMED: Final = "Programmed"
RESOLVED_REFS: Final = "ResolvedRefs"

# Of listeners.
HOSTNAME_CONFLICT: Final = "HostnameConflict"
PROTOCOL_CONFLICT: Final = "ProtocolConflict"
PORT_UNAVAILABLE: Final = "PortUnavailable"
UNSUPPORTED_PROTOCOL: Final = "UnsupportedProtocol"
INVALID_ROUTE_KINDS: Final = "InvalidRouteKinds"
INVALID_CERTIFICATE_REF: Final = "InvalidCertificateRef"

# Of routes, for one parent.
NO_MATCHING_PARENT: Final = "NoMatchingParent"
NOT_ALLOWED: Final = "NotAllowedByListeners"
NO_MATCHING_HOSTNAME: Final = "NoMatchingListenerHostname"
UNSUPPORTED_VALUE: Final = "UnsupportedValue"

# Of backends.
REF_NOT_PERMITTED: Final = "RefNotPermitted"
INVALID_KIND: Final = "InvalidKind"
BACKEND_NOT_FOUND: Final = "BackendNotFound"


class Fault(msgspec.Struct, frozen=True):
    """Why a condition does not hold."""

    condition: str
    """The type of the condition that it makes False; of Conflicted, True."""
    reason: str
    message: str
