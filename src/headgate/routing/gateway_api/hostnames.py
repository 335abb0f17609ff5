"""Host names of listeners and routes: exact, or with `*` as the first label, for one label or more.

The empty name stands for every host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

ANY = ""

T = TypeVar("T")


def matches(pattern: str, host: str) -> bool:
    """Whether a host, in lower case and without a port, fits a pattern."""
    if pattern.startswith("*."):
        return len(host) > len(pattern) - 1 and host.endswith(pattern[1:])
    return pattern in (ANY, host)


def intersection(one: str, other: str) -> str | None:
    """The pattern for the hosts that fit both, which is the narrower of the two; None if there are none."""
    if covers(one, other):
        return other
    return one if covers(other, one) else None


def covers(wide: str, narrow: str) -> bool:
    """Whether every host that fits `narrow` fits `wide`."""
    if wide == ANY:
        return True
    if wide.startswith("*."):
        return narrow == wide or (narrow != ANY and narrow.endswith(wide[1:]))
    return narrow == wide


def covering(pattern: str) -> Iterator[str]:
    """All patterns that cover a pattern, beginning with itself."""
    yield pattern
    at = pattern.find(".", 2 if pattern.startswith("*.") else 1)
    while at >= 0:
        yield f"*{pattern[at:]}"
        at = pattern.find(".", at + 1)
    if pattern != ANY:
        yield ANY


def specificity(pattern: str) -> tuple[int, int]:
    """Sorts the most specific pattern first: most characters without a wildcard, then most characters."""
    return (0 if pattern.startswith("*.") else -len(pattern), -len(pattern))


class HostTable(Generic[T]):
    """Values by pattern. A host finds the value of the most specific pattern that it fits."""

    __slots__ = ("_exact", "_rest", "_suffixes")

    def __init__(self, values: Mapping[str, T]) -> None:
        self._exact = {name: value for name, value in values.items() if name and not name.startswith("*.")}
        self._suffixes = {name[1:]: value for name, value in values.items() if name.startswith("*.")}
        self._rest = values.get(ANY)

    def find(self, host: str) -> T | None:
        """The value for a host, in lower case and without a port."""
        found = self._exact.get(host)
        if found is not None:
            return found
        if self._suffixes:
            at = host.find(".", 1)
            while at >= 0:
                found = self._suffixes.get(host[at:])
                if found is not None:
                    return found
                at = host.find(".", at + 1)
        return self._rest
