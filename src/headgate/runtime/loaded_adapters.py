"""The adapters that the engine has in its present run, and the calls that load and unload them."""

from __future__ import annotations

import logging

import msgspec

from headgate.engines.runtime_adapters import Listed, adapter_calls, read_adapters, refusal
from headgate.runtime.adapter import Entry
from headgate.runtime.engine import Engine, FetchError, is_down

log = logging.getLogger(__name__)


class LoadedAdapters:
    """Knows which run of the engine loaded which adapter: some engines list none of them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._calls = adapter_calls(engine.kind)
        self._present: dict[str, int] = {}
        """In which run of the engine an adapter of this name was loaded here."""
        self.run = 0
        """Number of the engine's run: another one after it has refused connections."""

    @property
    def can_change(self) -> bool:
        """Whether the engine can load adapters while it runs; if not, `load` and `unload` must not be
        called."""
        return self._calls is not None

    async def listed(self) -> Listed | None:
        """The adapters of the engine; None if it does not tell.

        One that is too busy to respond keeps its adapters; one that refuses connections has none.
        """
        try:
            response = await self._engine.models()
        except FetchError as error:
            if is_down(error):
                self.run += 1
            return None
        if response.status != 200:
            return None
        try:
            return read_adapters(response.body)
        except ValueError as error:
            log.warning("the engine sent %s", error)
            return None

    def has(self, entry: Entry, listed: Listed) -> bool:
        """Whether the engine has this adapter, and from this source."""
        root = listed.roots.get(entry.adapter.name)
        was_loaded = entry.loaded_in == self.run
        if root is None:
            return was_loaded and not listed.is_complete
        return root == str(entry.directory) or (not root and was_loaded)

    def has_name(self, name: str, listed: Listed) -> bool:
        """Whether the engine has an adapter of this name, from any source."""
        return name in listed.roots or (not listed.is_complete and self._present.get(name) == self.run)

    def may_have_name(self, name: str, listed: Listed) -> bool:
        """The same, also if it was loaded in an earlier run."""
        return name in listed.roots or (not listed.is_complete and name in self._present)

    def forget(self, name: str) -> None:
        """It is unloaded."""
        self._present.pop(name, None)

    async def load(self, entry: Entry) -> str:
        """Why it was not loaded; empty if it was."""
        assert self._calls is not None
        content = {"lora_name": entry.adapter.name, "lora_path": str(entry.directory)}
        try:
            response = await self._engine.call(self._calls.load, msgspec.json.encode(content))
        except FetchError as error:
            return f"the engine {error}"
        problem = refusal(response.status, response.body, self._calls)
        if not problem:
            self._present[entry.adapter.name] = self.run
        return problem

    async def unload(self, name: str) -> str:
        """Why it is still there; empty if it is not."""
        assert self._calls is not None
        try:
            response = await self._engine.call(self._calls.unload, msgspec.json.encode({"lora_name": name}))
        except FetchError as error:
            return f"the engine {error}"
        return "" if response.status == 404 else refusal(response.status, response.body, self._calls)
