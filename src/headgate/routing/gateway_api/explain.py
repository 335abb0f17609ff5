"""Which rule of which HTTPRoute takes a request, and why all others do not."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headgate.routing.gateway_api import hostnames
from headgate.routing.gateway_api.backends import InvalidBackend
from headgate.routing.gateway_api.entry_list import Entry, EntryRule
from headgate.routing.gateway_api.entry_points import VirtualHost
from headgate.routing.gateway_api.filters import Filters, HeaderChange, PathChange
from headgate.routing.gateway_api.listeners import Place
from headgate.routing.gateway_api.matches import Match, RequestHead
from headgate.routing.gateway_api.rules import HTTP_ROUTE
from headgate.routing.gateway_api.translate import RouteState, Translation
from headgate.routing.patterns import Work


class BackendReading(msgspec.Struct, frozen=True):
    """A backend of the rule that takes the request."""

    name: str
    weight: int
    share: float
    fault: str = ""
    """Why requests to it get status 500."""


class EntryReading(msgspec.Struct, frozen=True, kw_only=True):
    """One match of a rule."""

    route: str
    rule: str
    conditions: tuple[str, ...]
    takes: bool
    why: str
    filters: tuple[str, ...] = ()
    backends: tuple[BackendReading, ...] = ()
    mirrors: tuple[str, ...] = ()


class ListenerReading(msgspec.Struct, frozen=True, kw_only=True):
    """The listeners with one place and host name to which the request belongs."""

    address: str
    port: int
    is_https: bool
    hostname: str | None
    """Empty for any; None if no listener here serves the host."""
    entries: tuple[EntryReading, ...] = ()
    """By precedence."""

    @property
    def taken(self) -> EntryReading | None:
        return next((each for each in self.entries if each.takes), None)


class Absence(msgspec.Struct, frozen=True):
    """Why a route, or one of its rules, takes no request, or does not do all that it says."""

    route: str
    why: str


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The explanation of one request."""

    listeners: tuple[ListenerReading, ...]
    absent: tuple[Absence, ...]


def explain(translation: Translation, host: str, request: RequestHead, port: int | None = None) -> Reading:
    """`host`: in lower case and without a port. `port`: of the listeners; None for all. Raises
    TooCostlyError."""
    found = []
    for place, here in translation.entry_points.ports.items():
        if port is None or place.port == port:
            virtual = here.hosts.find(host)
            found.append(_listener(place, here.is_https, virtual, host, request))
    absent = [each for key, state in translation.routes.items() for each in _absences(str(key), state, host)]
    return Reading(listeners=tuple(found), absent=tuple(absent))


def _listener(
    place: Place, is_https: bool, virtual: VirtualHost | None, host: str, request: RequestHead
) -> ListenerReading:
    if virtual is None:
        return ListenerReading(address=place.address, port=place.port, is_https=is_https, hostname=None)
    taken = virtual.find(host, request, Work())
    entries = virtual.entries.find(host)
    return ListenerReading(
        address=place.address,
        port=place.port,
        is_https=is_https,
        hostname=virtual.hostname,
        entries=tuple(_entries(entries.entries if entries is not None else (), taken, request)),
    )


def _entries(entries: tuple[Entry, ...], taken: Entry | None, request: RequestHead) -> Iterator[EntryReading]:
    is_taken = False
    for entry in entries:
        rule, takes = entry.rule, entry is taken and not is_taken
        why = _why_not(entry.match, request)
        if takes:
            is_taken, why = True, "takes the request"
        elif not why:
            why = "would fit, but the one above takes precedence"
        yield EntryReading(
            route=str(rule.route),
            rule=rule.split.name,
            conditions=tuple(conditions(entry.match)),
            takes=takes,
            why=why,
            filters=tuple(in_words(rule.filters)) if takes else (),
            backends=tuple(_backends(rule)) if takes else (),
            mirrors=tuple(_name(each) for each in rule.mirrored) if takes else (),
        )


def _why_not(match: Match, request: RequestHead) -> str:
    """The first condition that is not met; "" if all are."""
    if not msgspec.structs.replace(match, method=b"", headers=(), parameters=()).fits(request, Work()):
        return f"the path is {request.path[:256]}"
    if match.method and request.method != match.method:
        return f"the method is {request.method.decode('latin-1')}"
    for name, _ in match.headers:
        alone = tuple(each for each in match.headers if each[0] == name)
        if not msgspec.structs.replace(match, method=b"", headers=alone, parameters=()).fits(request, Work()):
            value = request.values().get(name)
            return f"the header {name.decode()} is {'missing' if value is None else repr(value[:256])}"
    for parameter, _ in match.parameters:
        given = tuple(each for each in match.parameters if each[0] == parameter)
        if not msgspec.structs.replace(match, method=b"", headers=(), parameters=given).fits(request, Work()):
            value = request.parameters().get(parameter)
            return f"the query parameter {parameter} is {'missing' if value is None else repr(value[:256])}"
    return ""


def conditions(match: Match) -> Iterator[str]:
    """The conditions of a match in words."""
    if match.expression is not None:
        yield f"path ~ {match.expression.exact}"
    else:
        yield f"path {'below ' if match.prefix is not None else ''}{match.path or '/'}"
    if match.method:
        yield match.method.decode()
    for name, text in match.headers:
        yield f"header {name.decode()} {'~' if text.expression is not None else '='} {text.exact}"
    for parameter, text in match.parameters:
        yield f"query {parameter} {'~' if text.expression is not None else '='} {text.exact}"


def in_words(filters: Filters) -> Iterator[str]:
    """What filters change."""
    for change, whose in ((filters.request, "request"), (filters.response, "response")):
        if change is not None:
            yield f"headers of the {whose}: {', '.join(_changes(change))}"
    if (redirect := filters.redirect) is not None:
        parts = (redirect.scheme, redirect.hostname, redirect.port, _path(redirect.path))
        to = ", ".join(str(each) for each in parts if each is not None)
        yield f"redirect with {redirect.status}{f' to {to}' if to else ''}"
    if (rewrite := filters.rewrite) is not None:
        changed = (("host", rewrite.hostname), ("path", _path(rewrite.path)))
        yield "rewrite " + ", ".join(f"{what} to {to}" for what, to in changed if to is not None)


def _changes(change: HeaderChange) -> Iterator[str]:
    yield from (f"remove {name.decode()}" for name in sorted(change.removed))
    yield from (f"set {name.decode()}: {value.decode('latin-1')}" for name, value in change.replaced)
    yield from (f"add {name.decode()}: {value.decode('latin-1')}" for name, value in change.added)


def _path(change: PathChange | None) -> str | None:
    if change is None:
        return None
    return f"{change.text or '/'}{' in place of the prefix' if change.is_prefix else ''}"


def _backends(rule: EntryRule) -> Iterator[BackendReading]:
    total = sum(target.weight for target in rule.split.targets)
    for target, backend in zip(rule.split.targets, rule.backends, strict=True):
        fault = backend.fault.message if isinstance(backend, InvalidBackend) else ""
        share = target.weight / total if total else 0.0
        yield BackendReading(_name(backend), target.weight, round(share, 4), fault)


def _name(backend: object) -> str:
    return "a reference that leads nowhere" if isinstance(backend, InvalidBackend) else str(backend)


def _absences(name: str, state: RouteState, host: str) -> Iterator[Absence]:
    route = f"{HTTP_ROUTE} {name}"
    for each in state.attachments:
        if each.fault is not None:
            yield Absence(route, each.fault.message)
    yield from (Absence(route, fault.message) for fault in state.rules.unsupported)
    yield from (Absence(route, why) for why in state.rules.ignored)
    served = {common for each in state.attachments for at in each.attached for common, _ in at.hosts}
    if served and not any(hostnames.matches(each, host) for each in served):
        yield Absence(route, f"its host names are others: {', '.join(sorted(served))}")
