"""Downloads the adapters that are not on the disk yet."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from headgate.runtime.adapter import Entry
from headgate.runtime.fetching import Fetch, FetchError

log = logging.getLogger(__name__)


class AdapterDownloads:
    """One task for each adapter that is being downloaded."""

    def __init__(self, fetch: Fetch, ended: Callable[[], None]) -> None:
        """`ended` is called after each download, whatever its outcome, which its entry has."""
        self._fetch = fetch
        self._ended = ended
        self._tasks: dict[str, asyncio.Task[None]] = {}
        """By name of the adapter."""
        self._ending: set[asyncio.Task[None]] = set()
        """Downloads that were cancelled."""

    def follow(self, entries: Mapping[str, Entry], now: float) -> None:
        """Start one for each adapter that needs it; those that nobody needs any more are ended."""
        for name, task in list(self._tasks.items()):
            entry = entries.get(name)
            if task.done() or entry is None or task.get_name() != entry.adapter.source:
                del self._tasks[name]
                if task.cancel():
                    self._ending.add(task)
                    task.add_done_callback(self._ending.discard)
        for name, entry in entries.items():
            if not entry.is_fetched and name not in self._tasks and now >= entry.retry_at:
                self._tasks[name] = asyncio.create_task(self._download(entry), name=entry.adapter.source)

    async def _download(self, entry: Entry) -> None:
        adapter = entry.adapter
        try:
            await self._fetch(adapter.source, entry.directory, adapter.name)
        except FetchError as error:
            log.warning("adapter %s cannot be downloaded: %s", adapter.name, error)
            entry.failed(str(error), asyncio.get_running_loop().time())
        else:
            entry.is_fetched = True
        self._ended()

    async def close(self) -> None:
        """Cancel all and wait for their ends."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), *self._ending, return_exceptions=True)
