"""The memory of all request bodies in a worker, and its limit.

A body is counted as its bytes arrive, so a client reserves nothing by announcing a long one. It counts until
the gateway no longer needs it: when its endpoint has begun to respond, or the request is over.
"""

from __future__ import annotations

from typing import Final, Protocol

from headgate.requests.refusal import Refusal

LONG_BYTES: Final = 64 * 1024
"""A longer body counts as long."""
_KEPT_FREE: Final = 8
"""One in this many parts is reserved for bodies that are not long: uploads must not stop ordinary prompts."""


class Holder(Protocol):
    """A request, as far as body memory is concerned."""

    held_bytes: int


class BodyMemory:
    """Counts the bytes of the bodies in a worker; owned by its Services.

    Code that adds to `held` checks `is_exceeded_by`, and later subtracts exactly what it added.
    """

    __slots__ = ("_limit", "_short_at", "held", "limit_of_long")

    def __init__(self, limit: int, longest: int) -> None:
        self.held = 0
        self.change(limit, longest)

    def change(self, limit: int, longest: int) -> None:
        """Set the limit for all bodies, and the size of the longest. Bodies in memory stay."""
        self._limit = limit
        self.limit_of_long = for_long(limit)
        """While `held` is at most this, no limit is exceeded."""
        self._short_at = self.limit_of_long - longest

    @property
    def is_short(self) -> bool:
        """Whether a body of the longest size would not be admitted now."""
        return self.held > self._short_at

    def has_room(self, size: int) -> bool:
        """Whether a body of this size may be read, of which nothing is counted yet."""
        return not self._exceeds(self.held + size, size)

    def is_exceeded_by(self, size: int) -> bool:
        """Whether a body that has grown to this size, and is counted, exceeds the limit."""
        return self._exceeds(self.held, size)

    def _exceeds(self, held: int, size: int) -> bool:
        return held > (self.limit_of_long if size > LONG_BYTES else self._limit)

    def recount(self, request: Holder, size: int) -> None:
        """Count this size for the request from now on."""
        self.held += size - request.held_bytes
        request.held_bytes = size

    def refuse_two(self, request: Holder, size: int) -> Refusal | None:
        """Count two bodies of this size besides the client's; return a refusal if that exceeds the limit."""
        self.recount(request, 3 * size)
        return self.refusal() if self.is_exceeded_by(size) else None

    def release(self, request: Holder) -> None:
        """Stop counting the request's body. A second call does nothing."""
        self.held -= request.held_bytes
        request.held_bytes = 0

    def refusal(self) -> Refusal:
        return Refusal.unavailable(
            f"the request bodies that this gateway holds have reached their limit of {self._limit} bytes: "
            "retry later, or raise clients.max_bodies_bytes of the gateway",
            code="too_many_body_bytes",
        )

    def statistics(self) -> dict[str, int]:
        return {"held_bytes": self.held, "limit_bytes": self._limit}


def for_long(limit: int) -> int:
    """The part of a limit that long bodies may use together."""
    return limit - limit // _KEPT_FREE


def least_limit(longest: int) -> int:
    """The smallest limit with which the longest body can be admitted."""
    return longest * _KEPT_FREE // (_KEPT_FREE - 1)
