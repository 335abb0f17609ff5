"""Follows one endpoint URL: the servers that its host name leads to, and what each of them serves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Protocol

from headgate.standalone import watching
from headgate.standalone.asking import Asking
from headgate.standalone.composing import Engine
from headgate.standalone.resolving import MAX_SERVERS, Found, LookupFailedError, Resolver, Server
from headgate.standalone.urls import EndpointUrl, slug
from headgate.standalone.watching import Watched

log = logging.getLogger(__name__)

SOONEST_S: Final = 1.0
"""Between two lookups, however soon records expire; and after a failed one."""
MAX_SHOWN_MODELS: Final = 100
MAX_ADDRESS_CHARACTERS: Final = 60
"""In the name of a server."""


class Pace(Protocol):
    """The settings, which may change."""

    @property
    def ask_s(self) -> float: ...
    @property
    def resolve_s(self) -> float: ...


class FollowedUrl:
    """`run` follows until it is cancelled; `changed` is called whenever `engines` differ."""

    def __init__(
        self,
        url: EndpointUrl,
        resolver: Resolver,
        pace: Callable[[], Pace],
        turns: asyncio.Semaphore,
        changed: Callable[[], None],
    ) -> None:
        self.url = url
        self.failed_lookups = 0
        self._resolver = resolver
        self._pace = pace
        self._turns = turns
        self._changed = changed
        self._servers: dict[tuple[str, int], Server] = {}
        self._watched: dict[tuple[str, int], Watched] = {}
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}
        self._problem = "has not been looked up yet"
        self._running: asyncio.Task[None] | None = None
        self._context = watching.context() if url.is_https else None

    @property
    def is_known(self) -> bool:
        """Whether all of its servers have been asked, or none are known."""
        is_looked_up = not self._problem or self.failed_lookups > 0
        return is_looked_up and all(each.is_known for each in self._watched.values())

    @property
    def problem(self) -> str:
        """Why its servers are not known; those that were known before stay."""
        return self._problem

    def engines(self) -> list[Engine]:
        """Its servers, as they are known now."""
        shares = {server.share for server in self._servers.values()}
        return [self._engine(server, has_shares=len(shares) > 1) for server in self._servers.values()]

    def _engine(self, server: Server, *, has_shares: bool) -> Engine:
        url, place = self.url, (server.host, server.port)
        watched = self._watched[place]
        host, server_name = self._reached(server)
        weight = url.weight
        if has_shares:
            most = max(each.share for each in self._servers.values())
            weight = max((url.weight or 1.0) * server.share / most, 0.001)
        return Engine(
            name=watched.name,
            host=host,
            port=server.port,
            is_https=url.is_https,
            server_name=server_name,
            prefix=url.prefix,
            weight=weight,
            role=url.role,
            connector=url.connector,
            kind=watched.state.kind,
            is_ready=watched.state.is_ready,
            listing=watched.state.listing,
        )

    def _reached(self, server: Server) -> tuple[str, str]:
        """Host, and the name in its certificate if that is another. A host with https keeps its name while
        that leads to one address, so that several of them are one pool."""
        url = self.url
        if not url.is_https or url.is_srv or url.is_address:
            return server.host, ""
        return (url.host, "") if len(self._servers) == 1 else (server.host, url.host)

    # -- following

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Follow until stopped, or until the tasks are cancelled."""
        self._running = tasks.create_task(self.run())

    def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                await asyncio.sleep(await self._look_up(tasks))
                if self.url.is_address:
                    await asyncio.Event().wait()

    async def _look_up(self, tasks: asyncio.TaskGroup) -> float:
        """Look up the servers once; returns when to look again, in seconds."""
        longest_s = self._pace().resolve_s
        try:
            found = await self._resolver.find(self.url)
        except LookupFailedError as error:
            self._note_failure(error)
            return min(SOONEST_S, longest_s)
        except Exception:  # a bug here must not end the gateway, nor what is served already
            log.exception("endpoint %s: looking up %s", self.url.name, self.url.host)
            self._note_failure(LookupFailedError("cannot be looked up: see the log"))
            return longest_s
        self._use(found, tasks)
        return min(max(found.ttl_s, SOONEST_S), longest_s)

    def _note_failure(self, error: LookupFailedError) -> None:
        """The last servers stay, unless the name is gone and they do not answer either."""
        self.failed_lookups += 1
        if self._problem != str(error):
            kept = "; the addresses known so far stay in use" if self._servers else ""
            log.warning("endpoint %s: %s%s", self.url.name, error, kept)
        self._problem = str(error)
        if error.is_gone:
            for place in [place for place, each in self._watched.items() if not each.state.is_ready]:
                self._drop(place)
        self._changed()

    def _use(self, found: Found, tasks: asyncio.TaskGroup) -> None:
        before, was = self._servers, self._problem
        self._servers = {(each.host, each.port): each for each in found.servers}
        self._problem = ""
        for place in self._watched.keys() - self._servers.keys():
            self._drop(place)
        for place, server in self._servers.items():
            if place not in self._watched:
                self._begin(place, server, tasks)
        if found.is_cut and not was:
            log.warning("endpoint %s: %s has more than %d servers", self.url.name, self.url.host, MAX_SERVERS)
        if before != self._servers or was:
            self._changed()

    def _begin(self, place: tuple[str, int], server: Server, tasks: asyncio.TaskGroup) -> None:
        url = self.url
        server_name = url.host if url.is_https and not url.is_srv and not url.is_address else ""
        asking = Asking(server.host, server.port, url.prefix, self._context, server_name)
        interval_s = lambda: self._pace().ask_s  # noqa: E731 - it follows the settings
        watched = Watched(self._name(server), asking, url.engine, interval_s, self._turns, self._changed)
        self._watched[place] = watched
        self._tasks[place] = tasks.create_task(watched.run())

    def _name(self, server: Server) -> str:
        """The first server has the name of the URL, and keeps it when others come."""
        name, taken = self.url.name, {each.name for each in self._watched.values()}
        if name not in taken and not self.url.is_srv:
            return name
        full = f"{name}-{slug(f'{server.host}-{server.port}', MAX_ADDRESS_CHARACTERS)}"
        numbered = (full, *(f"{full}-{number}" for number in range(2, MAX_SERVERS + 2)))
        return next(each for each in numbered if each not in taken)

    def _drop(self, place: tuple[str, int]) -> None:
        self._servers.pop(place, None)
        del self._watched[place]
        self._tasks.pop(place).cancel()

    def shown(self) -> dict[str, Any]:
        """For the debug page."""
        return {
            "name": self.url.name,
            "url": self.url.text,
            "problem": self._problem,
            "servers": [
                {
                    "name": watched.name,
                    "address": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                    "ready": watched.state.is_ready,
                    "engine": watched.state.kind,
                    "models": sorted(watched.state.listing.models)[:MAX_SHOWN_MODELS],
                    "adapters": sorted(watched.state.listing.adapters)[:MAX_SHOWN_MODELS],
                    "problem": watched.state.problem,
                }
                for (host, port), watched in self._watched.items()
            ],
        }
