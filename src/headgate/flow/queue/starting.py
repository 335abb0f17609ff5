"""The start of a pool that is scaled from zero: how long it takes, and which requests can wait for it."""

from __future__ import annotations

from typing import Final

from headgate.flow.queue import why
from headgate.flow.queue.settings import FlowSettings
from headgate.flow.queue.waiting import Waiting
from headgate.flow.queue.why import Why
from headgate.routing import Start

MIN_FAILED_RETRY_S: Final = 5.0
LEAST_LEFT: Final = 0.1
"""A start that takes longer than expected is expected to take this part of the expected time from now on."""


class Starting:
    """The start of one pool. It begins with the first request that finds no endpoint."""

    __slots__ = ("_asked_at", "_began_at", "_settings", "start")

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        self.start: Start | None = None
        """None if requests do not start the pool."""
        self._began_at: float | None = None
        self._asked_at = 0.0
        """When the last request arrived that found no endpoint."""

    def change(self, settings: FlowSettings) -> None:
        """Apply other settings."""
        self._settings = settings

    @property
    def ttl_s(self) -> float:
        """How long a request may wait for the first endpoint."""
        if self.start is None:
            return self._settings.no_endpoint_ttl_s
        return 0.0 if self.start.failure else self._settings.start_ttl_s

    def asked(self, now: float, *, is_awaited: bool) -> None:
        """A request arrived and found no endpoint; `is_awaited`: others wait already.

        If none waits and none arrived for as long as a start takes, the last start was given up.
        """
        start = self.start
        if start is None:
            return
        if self._began_at is None or (not is_awaited and now - self._asked_at > start.expected_s):
            self._began_at = now
        self._asked_at = now

    def ended(self) -> None:
        """The pool has an endpoint."""
        self._began_at = None

    def left_s(self, now: float) -> float:
        """Seconds until an endpoint is expected to be ready."""
        start = self.start
        assert start is not None
        if self._began_at is None:
            return start.expected_s
        return max(self._began_at + start.expected_s - now, LEAST_LEFT * start.expected_s)

    def retry_after_s(self, now: float) -> float:
        """When a rejected request may be served; after a failure, when another start may be over."""
        start = self.start
        assert start is not None
        return max(start.expected_s, MIN_FAILED_RETRY_S) if start.failure else self.left_s(now)

    def reason_to_reject(self, waiting: Waiting, now: float) -> Why | None:
        """Why a request need not wait: the start has failed, or will be over too late for it."""
        start = self.start
        assert start is not None
        if start.failure:
            return why.start_failed(start.failure)
        waits_s = min(self.ttl_s, waiting.gives_up_at - now)
        left_s = self.left_s(now)
        return why.starts_too_late(left_s, waits_s) if left_s > waits_s else None

    def expired(self, waited_s: float) -> Why:
        """Why a request waits no longer."""
        start = self.start
        assert start is not None
        if start.failure:
            return why.start_failed(start.failure)
        return why.not_started(waited_s)
