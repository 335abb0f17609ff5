"""The endpoints to which another proxy confines a request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headgate.fleet import EndpointState


class Subset:
    """Addresses ("10.0.0.7:8000") or hosts ("10.0.0.7")."""

    __slots__ = ("_hosts", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._hosts = frozenset(map(_host, self._names))

    def excluded(self, loads: Sequence[EndpointState]) -> list[EndpointState]:
        """The endpoints that are not in it. A port only counts if some endpoint has it: proxies may name the
        port of another pool."""
        names = self._names
        found = [
            load for load in loads if load.endpoint.address not in names and load.endpoint.host not in names
        ]
        if len(found) == len(loads):
            found = [load for load in loads if load.endpoint.host not in self._hosts]
        return found


def _host(name: str) -> str:
    """A name without its port."""
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0] if name.count(":") == 1 else name
