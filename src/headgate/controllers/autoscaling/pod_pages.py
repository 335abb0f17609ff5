"""Fetches the metrics pages of Pods, many at a time, on connections that are kept between reads.

Making a connection costs more than reading a page, and so does a task for each page: on a kept connection,
the request is sent and the response awaited together with those of the other Pods.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from collections.abc import Sequence
from typing import Final

from headgate.engine_client import Client, FetchError, LargeResponses, NoResponseError, Response
from headgate.loop_turns import Turns

MAX_PAGE_BYTES: Final = 4 * 1024 * 1024
POD_S: Final = 3.0
"""For one Pod to send its page."""
MAX_OF_TARGET: Final = 16
"""Pods of one target that are read at a time."""
MAX_OF_ALL: Final = 128
"""Pods that are read at a time."""
MOST_FILES: Final = 65_536
"""More are not asked for."""
KEPT_SHARE: Final = 0.5
"""Of the files that the process may open: connections that are kept."""
_ACCEPT: Final = "text/plain"


class PodPage:
    """The page of one Pod. Only `PageReader` changes it."""

    __slots__ = ("address", "client", "is_followed", "problem")

    def __init__(self) -> None:
        self.address = ""
        self.client: Client | None = None
        """A connection that is kept, and not in use."""
        self.problem = ""
        """Why the last read failed, in words that follow the name of the Pod; empty if it did not."""
        self.is_followed = True


class PageReader:
    """Reads pages, and keeps connections as far as the process may open files."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(MAX_OF_ALL)
        self._large = LargeResponses()
        self._turns: Turns | None = None
        self._most_kept = most_kept()
        self.kept = 0
        """Connections that are kept and not in use."""

    async def fetch(
        self, pages: Sequence[PodPage], port: int, uri: str, deadline_s: float
    ) -> list[Response | None]:
        """The response of each page that came within `deadline_s` seconds; the others have a problem."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + deadline_s
        found: dict[PodPage, Response] = {}
        for page in pages:
            page.problem = f"was not read within {deadline_s:g} s, as other Pods are slow"
        left = pages
        if len(pages) <= MAX_OF_TARGET:
            left = await self._on_kept(pages, uri, min(deadline_s, POD_S), found)
        if left:
            await self._on_new(left, port, uri, (deadline_s, ends - loop.time()), found)
        return [found.get(page) for page in pages]

    def drop(self, page: PodPage) -> None:
        """The page will not be read again."""
        page.is_followed = False
        if (client := self._taken(page)) is not None:
            client.close()

    async def _on_kept(
        self, pages: Sequence[PodPage], uri: str, limit_s: float, found: dict[PodPage, Response]
    ) -> list[PodPage]:
        """Read the pages whose connections were kept; returns the others."""
        asked: list[tuple[PodPage, Client, asyncio.Future[Response]]] = []
        others: list[PodPage] = []
        try:
            async with asyncio.timeout(limit_s):
                for page in pages:
                    if page.client is None:
                        others.append(page)
                        continue
                    await self._places.acquire()
                    client = self._taken(page)
                    response = client.get_again(uri, _ACCEPT, MAX_PAGE_BYTES) if client is not None else None
                    if client is None or response is None:
                        self._places.release()
                        others.append(page)
                        continue
                    response.add_done_callback(self._leave)
                    asked.append((page, client, response))
                for _, _, response in asked:
                    if not response.done():
                        await asyncio.wait((response,))
        except TimeoutError:
            pass
        finally:
            for page, client, response in asked:
                if response.cancel():
                    page.problem = f"sent no answer within {limit_s:g} s"
                    client.close()
                elif isinstance(error := response.exception(), NoResponseError):
                    others.append(page)  # it closed the idle connection just as the request was sent
                else:
                    self._settle(page, client, error or response.result(), found)
        return others

    def _leave(self, _: asyncio.Future[Response]) -> None:
        self._places.release()

    async def _on_new(
        self,
        pages: Sequence[PodPage],
        port: int,
        uri: str,
        limits_s: tuple[float, float],
        found: dict[PodPage, Response],
    ) -> None:
        """Read pages on new connections. `limits_s`: what Pods are told to have had, and what is left."""
        few = asyncio.Semaphore(MAX_OF_TARGET)

        async def one(page: PodPage) -> None:
            async with few, self._places:
                page.problem = f"sent no page within {limits_s[0]:g} s"
                client = self._taken(page) or self._new(page.address, port)
                try:
                    outcome: Response | FetchError = await client.get(uri, _ACCEPT, MAX_PAGE_BYTES, POD_S)
                except FetchError as error:
                    outcome = error
                except BaseException:
                    client.close()
                    raise
                self._settle(page, client, outcome, found)

        tasks = [asyncio.create_task(one(page)) for page in pages]
        try:
            await asyncio.wait(tasks, timeout=max(limits_s[1], 0.0))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _settle(
        self,
        page: PodPage,
        client: Client,
        outcome: Response | BaseException,
        found: dict[PodPage, Response],
    ) -> None:
        if isinstance(outcome, BaseException):
            page.problem = str(outcome)
            client.close()
            return
        found[page], page.problem = outcome, ""
        if page.client is None and page.is_followed and self.kept < self._most_kept:
            client.release()
            page.client = client
            self.kept += 1
        else:
            client.close()

    def _taken(self, page: PodPage) -> Client | None:
        """The kept connection, which is in use now."""
        client, page.client = page.client, None
        if client is not None:
            self.kept -= 1
        return client

    def _new(self, address: str, port: int) -> Client:
        if self._turns is None:
            self._turns = Turns(asyncio.get_running_loop())
        return Client(address, port, None, "", turns=self._turns, large=self._large)


def most_kept() -> int:
    """How many connections may be kept. Raises the soft limit on files as far as useful and allowed, as Go's
    servers do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    allowed = MOST_FILES if hard == resource.RLIM_INFINITY else min(MOST_FILES, hard)
    if soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return int(KEPT_SHARE * max(soft, allowed))
