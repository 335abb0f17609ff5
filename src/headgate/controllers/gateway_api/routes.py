"""What the status of an HTTPRoute says, for each of its parents that is a Gateway of Headgate's classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from headgate.controllers.conditions import Finding, enumerated
from headgate.controllers.findings import ACCEPTED, RESOLVED_REFS
from headgate.controllers.gateway_api.forming import OfRoute
from headgate.routing.gateway_api import Attachment, Fault, RouteState

PARTIALLY_INVALID: Final = "PartiallyInvalid"

NO_PARENTS = OfRoute(())
"""Of a route that names no Gateway of ours."""


def of_route(state: RouteState) -> OfRoute:
    """A route that is attached by several parentRefs has the same faults for each."""
    rules = state.rules
    partly = [_partly_invalid(rules.unsupported)] if rules.unsupported and state.is_accepted else []
    resolved = _resolved(rules.unresolved)
    attachments = {each.reference: each for each in state.attachments}.values()
    return OfRoute([(each.reference, [_accepted(each, state), resolved, *partly]) for each in attachments])


def is_accepted(attached: Attachment, state: RouteState) -> bool:
    """Whether requests of that parent may reach the route."""
    return attached.fault is None and state.is_accepted


def _accepted(attached: Attachment, state: RouteState) -> Finding:
    if attached.fault is not None:
        return Finding(ACCEPTED, False, attached.fault.reason, attached.fault.message)
    if not state.is_accepted:
        unsupported = state.rules.unsupported
        return Finding(ACCEPTED, False, unsupported[0].reason, _messages(unsupported))
    names = enumerated(each.listener.spec.name for each in attached.attached)
    return Finding(ACCEPTED, True, "Accepted", f"Attached to listeners: {names}")


def _partly_invalid(unsupported: Sequence[Fault]) -> Finding:
    why = f"Dropped Rule: {_messages(unsupported)}"  # the Gateway API asks for these first words
    return Finding(PARTIALLY_INVALID, True, unsupported[0].reason, why)


def _resolved(unresolved: Sequence[Fault]) -> Finding:
    if unresolved:
        return Finding(RESOLVED_REFS, False, unresolved[0].reason, _messages(unresolved))
    return Finding(RESOLVED_REFS, True, "ResolvedRefs", "All references are resolved")


def _messages(found: Iterable[Fault]) -> str:
    return enumerated(dict.fromkeys(fault.message for fault in found), "; ")
