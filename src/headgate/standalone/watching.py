"""Follows one server: which models it lists, which engine it is, and whether it is there."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

import msgspec

from headgate.standalone.asking import AskFailedError, Asking, Listing

log = logging.getLogger(__name__)

DOWN_AFTER: Final = 2
"""Failures to connect in a row after which a server gets no requests."""
SILENT_AFTER: Final = 6
"""The same of other failures: an engine with a lot to do may answer late, and gateways notice before that."""
AGAIN_S: Final = 1.0
"""Longest interval to a server that is not there: it gets requests soon after it has come."""
RECOGNIZE_S: Final = 60.0
"""Interval between two looks at the metrics page of an engine that is not recognized."""
MAX_ASKED: Final = 64
"""Servers that are asked at a time."""
_SHOWN: Final = 5
_SHOWN_CHARACTERS: Final = 128


class State(msgspec.Struct, frozen=True):
    """What is known of a server."""

    is_ready: bool = False
    kind: str = ""
    """The name of the engine; empty if it is not recognized."""
    listing: Listing = Listing()
    """As last read: it stays while the server is away."""
    problem: str = "has not been asked yet"
    """Why the last question was not answered; empty if it was."""


class Watched:
    """Asks one server again and again, and calls `changed` when something is new."""

    def __init__(
        self,
        name: str,
        asking: Asking,
        kind: str,
        interval_s: Callable[[], float],
        turns: asyncio.Semaphore,
        changed: Callable[[], None],
    ) -> None:
        """`kind`: its engine, if that is known anyway."""
        self.name = name
        self.state = State(kind=kind)
        self.is_known = False
        """Whether it has been asked at least once."""
        self._asking = asking
        self._is_told = bool(kind)
        self._interval_s = interval_s
        self._turns = turns
        self._changed = changed
        self._failures = 0
        self._recognize_at = 0.0

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            while True:
                async with self._turns:
                    await self._ask()
                interval_s = self._interval_s()
                await asyncio.sleep(min(interval_s, AGAIN_S) if self._failures else interval_s)
        finally:
            self._asking.close()

    async def _ask(self) -> None:
        was_known, before = self.is_known, self.state
        try:
            listing = await self._asking.models()
            kind = await self._engine() or before.kind
        except AskFailedError as error:
            self._failed(error)
        except Exception:  # a bug here must not end the gateway
            log.exception("endpoint %s: asking for its models", self.name)
            self._failed(AskFailedError("cannot be asked for its models: see the log"))
        else:
            self._failures = 0
            self.state = State(is_ready=True, kind=kind, listing=listing, problem="")
        self.is_known = True
        if self.state != before or not was_known:
            self._log(before, is_first=not was_known)
            self._changed()

    async def _engine(self) -> str:
        """The engine, if it is to be recognized now: another one may have taken the place of one that
        failed."""
        now = asyncio.get_running_loop().time()
        is_due = self._failures or (not self.state.kind and now >= self._recognize_at) or not self.is_known
        if self._is_told or not is_due:
            return ""
        self._recognize_at = now + RECOGNIZE_S
        try:
            return await self._asking.engine()
        except AskFailedError:
            return ""

    def _failed(self, error: AskFailedError) -> None:
        self._failures += 1
        is_out = self._failures >= (DOWN_AFTER if error.is_down else SILENT_AFTER)
        self.state = msgspec.structs.replace(
            self.state, is_ready=self.state.is_ready and not is_out, problem=str(error)
        )

    def _log(self, before: State, *, is_first: bool) -> None:
        now = self.state
        if now.is_ready and (not before.is_ready or now.listing != before.listing):
            models = sorted(now.listing.models | now.listing.adapters.keys())
            more = f" and {len(models) - _SHOWN} more" if len(models) > _SHOWN else ""
            told = f"{', '.join(map(_shown, models[:_SHOWN]))}{more}" if models else "no models"
            log.info("endpoint %s (%s) serves %s", self.name, now.kind or "unknown engine", told)
        elif now.problem and (is_first or (before.is_ready and not now.is_ready)):
            log.warning("endpoint %s gets no requests until it answers: it %s", self.name, now.problem)


def _shown(model: str) -> str:
    """A name that can neither end the line of a log nor control a terminal."""
    name = model[:_SHOWN_CHARACTERS]
    return name if name.isprintable() else ascii(name)


def context() -> ssl.SSLContext:
    """For servers with https, verified by the authorities that the system trusts."""
    from headgate import http_clients

    return http_clients.verifying(ssl.create_default_context())
