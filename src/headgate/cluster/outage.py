"""Logs an unreachable API server once, however many kinds of its objects are followed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from dataclasses import dataclass

from headgate.cluster.errors import ApiError, Unreachable

log = logging.getLogger(__name__)


class Outage:
    """Whether one API server responds, as observed by all who follow its objects."""

    def __init__(self, server: str, source: str) -> None:
        self._server = f"{server} ({source})" if source else server
        self._is_on = False
        self._responded_at = float("-inf")
        self._over = asyncio.Event()
        self.ended_at = float("-inf")
        """When the last outage was over, in monotonic seconds; those that go on are not."""

    @property
    def is_on(self) -> bool:
        return self._is_on

    async def pause(self, seconds: float, error: ApiError) -> None:
        """Wait for so long after a failure, or until somebody else gets a response: who follows one kind of
        objects should not be behind who follows another."""
        if not self._is_on or not isinstance(error, Unreachable):
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()

    def responded(self, now: float) -> None:
        """The server responded, even with a rejection."""
        self._responded_at = now
        if self._is_on:
            self._is_on = False
            self.ended_at = now
            self._over.set()
            log.info("the API server at %s answers again", self._server)

    def failed(self, error: ApiError, begun_at: float, now: float) -> bool:
        """Whether a failure is an outage of the server, and so is not logged for each kind.

        A request that began before the server's last response does not show an outage: the next attempt will.
        """
        if not isinstance(error, Unreachable) and error.status_code < 500:
            if error.status_code:
                self.responded(now)
            return False
        if not self._is_on and begun_at > self._responded_at:
            self._is_on = True
            self._over.clear()
            why = (
                "the objects that were read stay in use"
                if self._responded_at > 0
                else "no objects are known yet"
            )
            log.warning(
                "the API server at %s does not answer: %s; %s, and it is asked again until it answers",
                self._server,
                error.message,
                why,
            )
        return True


@dataclass(frozen=True)
class Backoff:
    """Delays of `base_s`, twice that, and so on up to `cap_s`; each is between half of it and all of it."""

    base_s: float = 0.2
    cap_s: float = 30.0

    def delay_s(self, failures: int, rng: random.Random) -> float:
        """The delay after this many consecutive failures, the first being 1."""
        doublings = min(max(failures - 1, 0), 60)
        return min(self.cap_s, self.base_s * 2.0**doublings) * rng.uniform(0.5, 1.0)
