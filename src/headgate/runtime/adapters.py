"""Keeps the adapters of the engine as desired: downloads, loads, unloads, and loads again after a restart.

What the engine has is read from its list of models, so nothing is assumed about an engine that ended, or
about calls whose response was lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate.engines.runtime_adapters import Listed, read_adapters
from headgate.runtime.adapter import AdapterState, Entry
from headgate.runtime.adapter_downloads import AdapterDownloads
from headgate.runtime.desired import Adapter, DesiredFile
from headgate.runtime.engine import Engine, FetchError
from headgate.runtime.fetching import Fetch, directory_of, in_place
from headgate.runtime.loaded_adapters import LoadedAdapters

BUSY_S: Final = 1.0
"""Between two looks at the engine while something is to be done."""
QUIET_S: Final = 2.0
"""The same while every adapter is loaded: an engine that has restarted lacks them so long."""
AWAIT_S: Final = 60.0
"""How long a sidecar without any set waits for one before its engine may get requests."""
UNLOAD_AGAIN_S: Final = 10.0
"""After an engine has failed to unload an adapter."""

MOST_TOLD: Final = 5

log = logging.getLogger(__name__)


class Adapters:
    """The desired adapters. `run` keeps the engine in line with them; no other method waits for it."""

    def __init__(self, engine: Engine, fetch: Fetch, file: DesiredFile, root: Path) -> None:
        """`root` is the directory of downloaded adapters, which the engine sees at the same path."""
        self._engine = engine
        self._loaded = LoadedAdapters(engine)
        self._downloads = AdapterDownloads(fetch, self._downloaded)
        self._file = file
        self._root = root
        kept = file.read()
        self._entries = {each.name: self._entry(each) for each in kept.adapters}
        self._leaving = dict.fromkeys(kept.leaving, 0.0)
        """Names of former adapters that the engine may still have, and when to unload them."""
        self._is_told = file.exists()
        self._began: float | None = None
        self._is_settled = False
        """Whether each adapter was loaded, or has failed, since the engine started."""
        self._changed = asyncio.Event()
        self._news = asyncio.Event()

    # -- what callers do

    def replace(self, adapters: Sequence[Adapter]) -> None:
        """Desire exactly these, whose names differ. Raises OSError if they cannot be kept."""
        entries = {
            each.name: known if (known := self._entries.get(each.name)) and known.adapter == each
            else self._entry(each)
            for each in adapters
        }  # fmt: skip
        leaving = {name: 0.0 for name in (*self._leaving, *self._entries) if name not in entries}
        self._file.write(adapters, list(leaving))
        self._entries, self._leaving = entries, leaving
        self._is_told = True
        self._changed.set()

    def add(self, adapter: Adapter) -> None:
        """Desire this one, in place of another of its name. Raises OSError."""
        others = [each.adapter for each in self._entries.values() if each.adapter.name != adapter.name]
        self.replace([*others, adapter])

    def remove(self, name: str) -> bool:
        """Desire it no more; returns whether the engine had it or was to have it. Raises OSError."""
        others = [each.adapter for each in self._entries.values() if each.adapter.name != name]
        is_known = len(others) < len(self._entries)
        if is_known:
            self.replace(others)
        return is_known or name in self._leaving

    def states(self) -> list[AdapterState]:
        return [entry.picture() for entry in self._entries.values()]

    def state(self, name: str) -> AdapterState | None:
        """None if it is not desired."""
        entry = self._entries.get(name)
        return entry.picture() if entry is not None else None

    def is_leaving(self, name: str) -> bool:
        """Whether it is still to be unloaded."""
        return name in self._leaving

    async def lack(self) -> str:
        """Why the engine should get no requests; empty if it may. One that has started gets its adapters
        first. Later changes do not keep requests away."""
        if not self._is_told and (self._began is None or self._now < self._began + AWAIT_S):
            return "no set of adapters was sent yet"
        try:
            response = await self._engine.models()
            listed = read_adapters(response.body) if response.status == 200 else None
        except (FetchError, ValueError) as error:
            return f"the engine does not list its models: {error}"
        if listed is None:
            return f"the engine lists its models with status {response.status}"
        if not self._entries:
            return ""
        missing = [
            name
            for name, entry in self._entries.items()
            if (entry.state == "Loaded" and not self._loaded.has(entry, listed))
            or (entry.state == "Loading" and not self._is_settled)
        ]
        return f"adapters are not loaded yet: {', '.join(missing[:MOST_TOLD])}" if missing else ""

    async def changed(self) -> None:
        """Return when the state of any adapter may have changed."""
        await self._news.wait()

    # -- the loop

    async def run(self) -> None:
        """Keep the engine in line until cancelled."""
        self._began = self._now
        try:
            while True:
                self._changed.clear()
                if self._entries or self._leaving:
                    await self._reconcile()
                    self._tell()
                    await self._pause()
                else:
                    await self._changed.wait()
        finally:
            await self._downloads.close()

    async def _pause(self) -> None:
        is_quiet = not self._leaving and all(each.state == "Loaded" for each in self._entries.values())
        try:
            async with asyncio.timeout(QUIET_S if is_quiet else BUSY_S):
                await self._changed.wait()
        except TimeoutError:
            pass

    async def _reconcile(self) -> None:
        if not self._loaded.can_change:
            self._refuse(f"{self._engine.kind.name} cannot load adapters while it runs")
            return
        self._downloads.follow(self._entries, self._now)
        listed = await self._listed()
        if listed is None:
            return
        await self._unload_former(listed)
        for entry in list(self._entries.values()):
            if self._entries.get(entry.adapter.name) is entry:
                await self._bring(entry, listed)
                self._tell()
        if all(entry.state != "Loading" for entry in self._entries.values()):
            self._is_settled = True

    def _refuse(self, why: str) -> None:
        for entry in self._entries.values():
            entry.failed(why, self._now)
        self._forget(list(self._leaving))

    async def _listed(self) -> Listed | None:
        """The adapters of the engine; None if it does not tell."""
        run = self._loaded.run
        listed = await self._loaded.listed()
        if self._loaded.run != run:
            self._is_settled = False
            for entry in self._entries.values():
                entry.lost()
        return listed

    async def _bring(self, entry: Entry, listed: Listed) -> None:
        """Take one adapter a step further."""
        name = entry.adapter.name
        if self._loaded.has(entry, listed):
            entry.loaded(self._loaded.run)
            return
        if entry.state == "Loaded":  # the engine has restarted
            self._is_settled = False
        entry.lost()
        if not entry.is_fetched or self._now < entry.retry_at:
            return
        if self._loaded.has_name(name, listed) and (problem := await self._loaded.unload(name)):
            entry.failed(f"cannot unload the adapter of this name: {problem}", self._now)
            return
        problem = await self._loaded.load(entry)
        if problem:
            log.warning("adapter %s: %s", name, problem)
            entry.failed(problem, self._now)
            entry.is_fetched = not entry.needs_download  # the directory may be gone
        else:
            log.info("adapter %s is loaded from %s", name, entry.directory)
            entry.loaded(self._loaded.run)

    async def _unload_former(self, listed: Listed) -> None:
        gone = []
        for name in list(self._leaving):
            if self._loaded.may_have_name(name, listed) and name not in self._entries:
                if self._now < self._leaving.get(name, 0.0):
                    continue
                if problem := await self._loaded.unload(name):
                    log.warning("adapter %s cannot be unloaded: %s", name, problem)
                    self._leaving[name] = self._now + UNLOAD_AGAIN_S
                    continue
                log.info("adapter %s is unloaded", name)
            self._loaded.forget(name)
            gone.append(name)
        self._forget(gone)

    def _forget(self, names: Sequence[str]) -> None:
        for name in names:
            self._leaving.pop(name, None)
        if names:
            try:
                self._file.write([each.adapter for each in self._entries.values()], list(self._leaving))
            except OSError as error:
                log.warning("the desired adapters cannot be kept: %s", error)

    # -- downloads

    def _entry(self, adapter: Adapter) -> Entry:
        if adapter.directory:
            return Entry(adapter, Path(adapter.directory), needs_download=not adapter.is_present)
        place = in_place(adapter.source)
        directory = place or directory_of(adapter.source, self._root)
        return Entry(adapter, directory, needs_download=place is None)

    def _downloaded(self) -> None:
        """A download has ended."""
        self._changed.set()
        self._tell()

    # -- waiting callers

    def _tell(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()
