"""The entries that a request for one host may match, found by its path."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from headgate import api
from headgate.routing.gateway_api.backends import Backend
from headgate.routing.gateway_api.filters import NO_FILTERS, Filters
from headgate.routing.gateway_api.matches import Match, RequestHead
from headgate.routing.patterns import Work
from headgate.routing.snapshot import Route, Rule

FEW: Final = 8
"""Up to this many entries are compared one after the other."""


class EntryRule(msgspec.Struct, frozen=True):
    """One rule of an HTTPRoute."""

    route: api.ObjectRef
    name: str
    """The route and the rule in metrics and logs."""
    split: Rule
    """Its backends by weight: `model` of a target is the index of its backend."""
    as_route: Route
    """The route of requests to one of its pools that no route for their model leads there."""
    backends: tuple[Backend, ...]
    backend_filters: tuple[Filters, ...]
    """The filters of each backend."""
    filters: Filters = NO_FILTERS
    mirrored: tuple[Backend, ...] = ()
    """The backends of its mirrors."""
    request_timeout_s: float | None = None
    """From the request to the end of its response; None is unlimited."""
    backend_timeout_s: float | None = None
    """The same for one attempt."""


class Entry(msgspec.Struct, frozen=True):
    """One match of a rule."""

    match: Match
    rule: EntryRule


class EntryList:
    """Entries by precedence. Of many, only those are compared whose path fits: exact ones and prefixes are
    looked up, the prefixes by each beginning of the path that ends before a slash."""

    __slots__ = ("_exact", "_expressions", "_longest", "_prefixes", "entries")

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self._exact: dict[str, list[int]] = {}
        self._prefixes: dict[str, list[int]] = {}
        self._expressions: list[int] = []
        """All places are those of entries, in ascending order."""
        self._longest = 0
        """Length of the longest prefix."""
        if len(self.entries) <= FEW:
            return
        for place, entry in enumerate(self.entries):
            match = entry.match
            if match.expression is not None:
                self._expressions.append(place)
            elif match.prefix is None:
                self._exact.setdefault(match.path, []).append(place)
            else:
                self._prefixes.setdefault(match.path, []).append(place)
                self._longest = max(self._longest, len(match.path))

    def find(self, request: RequestHead, work: Work) -> Entry | None:
        """The first entry that fits. Raises TooCostlyError."""
        entries = self.entries
        if len(entries) <= FEW:
            for entry in entries:
                if entry.match.fits(request, work):
                    return entry
            return None
        found = self._places(request.path)
        for place in found[0] if len(found) == 1 else heapq.merge(*found):
            entry = entries[place]
            if entry.match.fits(request, work):
                return entry
        return None

    def _places(self, path: str) -> list[Sequence[int]]:
        """Places of the entries whose path may fit."""
        found: list[Sequence[int]] = []
        if exact := self._exact.get(path):
            found.append(exact)
        if self._expressions:
            found.append(self._expressions)
        prefixes = self._prefixes
        if root := prefixes.get(""):
            found.append(root)
        at, longest = path.find("/", 1), self._longest
        while 0 < at <= longest:
            if beginning := prefixes.get(path[:at]):
                found.append(beginning)
            at = path.find("/", at + 1)
        if len(path) <= longest and (whole := prefixes.get(path)):
            found.append(whole)
        return found
