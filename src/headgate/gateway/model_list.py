"""The names that a request may use, as listed by `/v1/models`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from headgate.kubeschema import timestamps

if TYPE_CHECKING:
    from headgate.auth.tenant import Grant
    from headgate.routing import Route, Snapshot

OWNER = "headgate"
MAX_TENANTS = 64
"""Tenants whose lists are kept."""


class ModelList:
    """Every name that a request may use, sorted, in OpenAI's format.

    A change of routes costs as much as the names affected; the list is built when a client first asks for it
    after a change.
    """

    def __init__(self) -> None:
        self._entries: dict[str, bytes] = {}
        self._names: list[str] = []
        self._body: bytes | None = None
        self._of_tenants: dict[Grant, bytes] = {}

    def change(self, names: Iterable[str], snapshot: Snapshot) -> None:
        """Update the names whose routes changed."""
        added: list[str] = []
        for name in names:
            route = snapshot.first(name)
            entry = _entry(name, route) if route is not None and not route.is_reserved else None
            if entry == self._entries.get(name):
                continue
            self._body = None
            self._of_tenants.clear()
            if entry is None:
                del self._entries[name], self._names[bisect_left(self._names, name)]
                continue
            if name not in self._entries:
                added.append(name)
            self._entries[name] = entry
        if added:
            self._names += added
            self._names.sort()  # linear, as all but the last are sorted

    def body(self, tenant: Grant | None = None) -> bytes:
        """The body of GET /v1/models, for a tenant with what it may use; built once after a change."""
        if tenant is not None and tenant.models:
            return self._of_tenant(tenant)
        if self._body is None:
            entries = b",".join([self._entries[name] for name in self._names])
            self._body = b'{"object":"list","data":[%b]}' % entries
        return self._body

    def _of_tenant(self, tenant: Grant) -> bytes:
        found = self._of_tenants.get(tenant)
        if found is None:
            if len(self._of_tenants) >= MAX_TENANTS:
                self._of_tenants.clear()
            entries = b",".join([self._entries[name] for name in self._names if tenant.may_use(name)])
            found = self._of_tenants[tenant] = b'{"object":"list","data":[%b]}' % entries
        return found

    def entry(self, name: str) -> bytes | None:
        """The body of GET /v1/models/NAME; None for a name without a route."""
        return self._entries.get(name)


def _entry(name: str, route: Route) -> bytes:
    entry = {"id": name, "object": "model", "created": _epoch(route.created), "owned_by": OWNER}
    return msgspec.json.encode(entry)


def _epoch(timestamp: str) -> int:
    try:
        return int(timestamps.parse(timestamp))
    except ValueError:
        return 0
