"""The limits of the API server's connections, and the Status that a rejected client gets.

The size of a body is bounded where it is read (`handlers.bodies`).
"""

from __future__ import annotations

import resource
from dataclasses import dataclass, replace

import msgspec

from headgate import serving
from headgate.apiserver import errors


@dataclass(frozen=True)
class Limits(serving.Limits):
    """Of connections, of which watches need many."""

    connections: int = 3000
    head_bytes: int = 64 * 1024
    request_s: float = 60.0
    stalled_s: float = 60.0

    def affordable(self) -> Limits:
        """These limits, with as many connections as the process may have files open besides its own."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return replace(self, connections=max(1, min(self.connections, soft - _OWN_FILES)))


_OWN_FILES = 64


class BoundedProtocol(serving.BoundedProtocol):
    """Rejects with a Status, as Kubernetes does."""

    def rejection(self, reason: serving.Reason, told: str) -> tuple[int, list[bytes], bytes]:
        error = _status(reason, told)
        retry = [b"retry-after: %d" % error.retry_after_s] if error.retry_after_s else []
        return error.code, retry, msgspec.json.encode(error.to_dict())


def _status(reason: serving.Reason, told: str) -> errors.StatusError:
    if reason == "too_many_connections":
        return errors.too_many_requests("Too many requests, please try again later.")
    if reason == "head_too_large":
        return errors.StatusError(431, "RequestHeaderFieldsTooLarge", told)
    return errors.StatusError(408, "Timeout", told)


def within(limits: Limits) -> type[serving.BoundedProtocol]:
    """The protocol class for these limits."""
    return serving.within(limits, lambda reason: None, BoundedProtocol)
