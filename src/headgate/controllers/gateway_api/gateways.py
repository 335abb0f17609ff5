"""What the status of a Gateway says: its listeners, whether they are served, and its addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from headgate.api import reference_grants
from headgate.api.gateways import Gateway, GatewayAddress, RouteGroupKind
from headgate.controllers.conditions import Finding, enumerated
from headgate.controllers.findings import ACCEPTED, RESOLVED_REFS
from headgate.controllers.gateway_api import addresses
from headgate.controllers.gateway_api.forming import OfGateway, OfListener
from headgate.controllers.gateway_api.listening import Place
from headgate.routing.gateway_api import Fault, GatewayState, ListenerState, faults

PROGRAMMED, CONFLICTED = "Programmed", "Conflicted"
LISTENERS_NOT_VALID, UNSUPPORTED_ADDRESS = "ListenersNotValid", "UnsupportedAddress"
INVALID_PARAMETERS = "InvalidParameters"
NOT_ASSIGNED, NOT_USABLE, INVALID, PENDING = "AddressNotAssigned", "AddressNotUsable", "Invalid", "Pending"

Accepts = Callable[[Place], bool | None]
"""Whether a place accepts connections; None if it is not known yet."""


def of_gateway(
    gateway: Gateway,
    state: GatewayState,
    assigned: Sequence[GatewayAddress],
    hosts: Sequence[str],
    accepts: Accepts,
) -> OfGateway:
    """`assigned`: the addresses of the Gateway; `hosts`: where the controller reaches it."""
    listeners = state.listeners
    of_listeners = [
        OfListener(
            each.spec.name,
            [RouteGroupKind(group=reference_grants.GROUP, kind=kind) for kind in each.kinds],
            state.attached[each.spec.name],
            _of_listener(each, hosts, accepts),
        )
        for each in listeners
    ]
    conditions = [_accepted(gateway, listeners), _programmed(gateway, listeners, hosts, accepts)]
    return OfGateway(conditions, assigned, of_listeners)


def places(listener: ListenerState, hosts: Iterable[str]) -> list[Place]:
    """Where a listener must be served."""
    return [Place(host, listener.spec.port) for host in hosts]


def _of_listener(listener: ListenerState, hosts: Sequence[str], accepts: Accepts) -> list[Finding]:
    refused = _first(listener, faults.ACCEPTED) or _first(listener, faults.CONFLICTED)
    conflict, unresolved = _first(listener, faults.CONFLICTED), _first(listener, faults.RESOLVED_REFS)
    return [
        _holds_unless(ACCEPTED, refused, "Accepted", "The listener is valid"),
        Finding(CONFLICTED, True, conflict.reason, conflict.message)
        if conflict is not None
        else Finding(CONFLICTED, False, "NoConflicts", "No other listener is in its way"),
        _holds_unless(RESOLVED_REFS, unresolved, "ResolvedRefs", "All references are resolved"),
        _listener_programmed(listener, hosts, accepts),
    ]


def _first(listener: ListenerState, condition: str) -> Fault | None:
    """One fault of a condition, with the messages of all that have its reason."""
    found = [fault for fault in listener.faults if fault.condition == condition]
    if not found:
        return None
    messages = [fault.message for fault in found if fault.reason == found[0].reason]
    return Fault(condition, found[0].reason, enumerated(dict.fromkeys(messages), "; "))


def _holds_unless(condition: str, fault: Fault | None, reason: str, message: str) -> Finding:
    if fault is not None:
        return Finding(condition, False, fault.reason, fault.message)
    return Finding(condition, True, reason, message)


def _listener_programmed(listener: ListenerState, hosts: Sequence[str], accepts: Accepts) -> Finding:
    if not listener.is_served:
        return Finding(PROGRAMMED, False, INVALID, "The listener is not served, see its other conditions")
    if not hosts:
        return Finding(PROGRAMMED, False, PENDING, "The Gateway has no address")
    waiting = [place for place in places(listener, hosts) if not accepts(place)]
    if waiting:
        where = enumerated(map(str, waiting))
        return Finding(PROGRAMMED, False, PENDING, f"No gateway accepts connections at {where}")
    where = enumerated(map(str, places(listener, hosts)))
    return Finding(PROGRAMMED, True, "Programmed", f"Gateways accept connections at {where}")


def _accepted(gateway: Gateway, listeners: Sequence[ListenerState]) -> Finding:
    if wrong := addresses.unsupported(gateway):
        names = enumerated(f"{each.type} {each.value}" for each in wrong)
        why = f"spec.addresses: {names}: only IP addresses can be listened on"
        return Finding(ACCEPTED, False, UNSUPPORTED_ADDRESS, why)
    parameters = gateway.spec.infrastructure and gateway.spec.infrastructure.parameters_ref
    if parameters:
        why = f"spec.infrastructure.parametersRef: Headgate has no parameters of kind {parameters.kind}"
        return Finding(ACCEPTED, False, INVALID_PARAMETERS, why)
    invalid = [each.spec.name for each in listeners if not each.is_accepted]
    if not invalid:
        unresolved = [each.spec.name for each in listeners if _first(each, faults.RESOLVED_REFS) is not None]
        but = f", but listeners have references that lead nowhere: {enumerated(unresolved)}"
        return Finding(ACCEPTED, True, "Accepted", f"Headgate serves this Gateway{but if unresolved else ''}")
    why = f"Some listeners are not valid: {enumerated(invalid)}"
    return Finding(ACCEPTED, len(invalid) < len(listeners), LISTENERS_NOT_VALID, why)


def _programmed(
    gateway: Gateway, listeners: Sequence[ListenerState], hosts: Sequence[str], accepts: Accepts
) -> Finding:
    if addresses.unsupported(gateway):
        return Finding(PROGRAMMED, False, NOT_USABLE, "spec.addresses has an address that cannot be used")
    if not hosts:
        why = (
            "Headgate does not know which address clients connect to: see --gateway-address and "
            "--gateway-service of the controller"
        )
        return Finding(PROGRAMMED, False, NOT_ASSIGNED, why)
    served = [each for each in listeners if each.is_served]
    if not served:
        return Finding(PROGRAMMED, False, INVALID, "No listener is served, see their conditions")
    waited = sorted({place for each in served for place in places(each, hosts) if not accepts(place)})
    if waited:
        why = f"No gateway accepts connections at {enumerated(map(str, waited))}"
        is_named = bool(addresses.requested(gateway))
        return Finding(PROGRAMMED, False, NOT_USABLE if is_named else PENDING, why)
    unserved = [each.spec.name for each in listeners if not each.is_served]
    but = f"; not served, see their conditions: {enumerated(unserved)}" if unserved else ""
    why = f"Gateways accept connections for all valid listeners{but}"
    return Finding(PROGRAMMED, True, "Programmed", why)
