"""Writes a Pod's status to the API server: batches small changes, writes readiness immediately."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from headgate import api, cluster

log = logging.getLogger(__name__)

COALESCE_S = 0.1
_BACKOFF = cluster.Backoff(base_s=0.1, cap_s=5.0)

Write = Callable[[api.PodStatus], Awaitable[None]]


class StatusWriter:
    """Writes the latest status; states between two writes are never written."""

    def __init__(self, what: str, written: api.PodStatus, write: Write, rng: random.Random) -> None:
        self._what = what
        self._write = write
        self._rng = rng
        self._wanted = self._written = written
        self._wanted_init: Sequence[api.ContainerStatus] = ()
        self._written_init: Sequence[api.ContainerStatus] = ()
        self._changed = asyncio.Event()
        self._urgent = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def show(self, status: api.PodStatus, init: Sequence[api.ContainerStatus] = ()) -> None:
        """Set the current status, and those of the init containers, which `write` adds to it."""
        if status == self._wanted and init == self._wanted_init:
            return
        self._wanted, self._wanted_init = status, init
        self._idle.clear()
        self._changed.set()
        if _shows_to_traffic(status) != _shows_to_traffic(self._written):
            self._urgent.set()

    def saw(self, status: api.PodStatus) -> None:
        """The server has this status. Write the current one again if traffic would act on another.

        The control plane marks the Pods of a node as not ready if it hears nothing of the node for a while.
        """
        if _shows_to_traffic(status) == _shows_to_traffic(self._written):
            return
        self._written = status
        if status != self._wanted:
            self._idle.clear()
            self._changed.set()

    async def run(self) -> None:
        """Write until cancelled, or until the Pod is gone."""
        failures = 0
        while True:
            await self._changed.wait()
            await self._gather()
            self._changed.clear()
            self._urgent.clear()
            status, init = self._wanted, self._wanted_init
            try:
                if status != self._written or init != self._written_init:
                    await self._write(status)
            except cluster.NotFound:
                self._idle.set()
                return
            except cluster.ApiError as error:
                failures += 1
                delay_s = _BACKOFF.delay_s(failures, self._rng)
                log.warning(
                    "could not write the status of %s, retrying in %.1f s: %s", self._what, delay_s, error
                )
                await asyncio.sleep(delay_s)
                self._changed.set()
                self._urgent.set()
                continue
            failures = 0
            self._written, self._written_init = status, init
            if self._wanted == status and self._wanted_init == init:
                self._idle.set()

    async def flush(self, timeout_s: float) -> None:
        """Wait until the status is written, at most `timeout_s`."""
        self._urgent.set()
        try:
            async with asyncio.timeout(timeout_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("could not write the last status of %s within %.0f s", self._what, timeout_s)

    async def _gather(self) -> None:
        """Wait briefly for further changes, unless the change is urgent."""
        try:
            async with asyncio.timeout(COALESCE_S):
                await self._urgent.wait()
        except TimeoutError:
            pass


def _shows_to_traffic(status: api.PodStatus) -> tuple[str, bool]:
    """The part of a status that gateways act on: the address, and whether it may be used."""
    return status.pod_ip, status.ready
