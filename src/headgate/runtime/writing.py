"""The calls of the sidecar's API that change something, and those that show what they have led to."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from headgate.runtime import app, progress
from headgate.runtime.adapters import Adapters
from headgate.runtime.app import Call, Response
from headgate.runtime.desired import MAX_ADAPTERS, Adapter, Name, Source
from headgate.runtime.errors import ApiError
from headgate.runtime.fetching import Fetch, FetchError
from headgate.runtime.token import TokenFile

MAX_DOWNLOADS: Final = 8
"""Calls of /v1/download_model that are not complete."""

T = TypeVar("T")


class _Wanted(msgspec.Struct, frozen=True):
    name: Name
    source: Source
    directory: Annotated[str, Meta(max_length=4096, pattern=r"^(/[^\x00-\x1f\x7f]*)?\Z")] = ""
    """Where it is already, so that it is not downloaded."""

    def adapter(self) -> Adapter:
        return Adapter(self.name, self.source, self.directory, is_present=bool(self.directory))


class _Set(msgspec.Struct, frozen=True):
    adapters: Annotated[list[_Wanted], Meta(max_length=MAX_ADAPTERS)]


class _Load(msgspec.Struct, frozen=True):
    lora_name: Name
    source: Source
    output_dir: Annotated[str, Meta(max_length=4096)] = ""
    async_download: bool = False


class _Unload(msgspec.Struct, frozen=True):
    lora_name: Name


class _Download(msgspec.Struct, frozen=True):
    source: Source
    output_dir: Annotated[str, Meta(min_length=1, max_length=4096)]
    async_download: bool = False


class Reading:
    """Reads calls that may change something: their token, their body, and the directories that they name."""

    def __init__(self, token: TokenFile, root: Path) -> None:
        """`root` is the only directory below which files are written."""
        self._token = token
        self._root = root

    async def content(self, call: Call, of: type[T]) -> T:
        """The body, of a caller that may change something. Raises ApiError."""
        self._token.check(call.header(b"authorization"))
        try:
            return msgspec.json.decode(await call.body(), type=of)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ApiError(400, f"the body is not what this call takes: {error}") from error

    def directory(self, given: str) -> Path:
        """A directory below the root, however it is written. Raises ApiError."""
        root = os.path.realpath(self._root)
        try:
            path = os.path.realpath(given)
        except (OSError, ValueError):
            path = ""
        if not os.path.isabs(given) or os.path.commonpath([root, path or "/"]) != root or path == root:
            raise ApiError(400, f"output_dir {given!r} is not below {self._root}: see --adapters-dir")
        return Path(path)


class AdapterCalls:
    """The handlers for adapters."""

    def __init__(self, reading: Reading, adapters: Adapters) -> None:
        self._reading = reading
        self._adapters = adapters

    async def show(self, _: Call) -> Response:
        """GET /v1/adapters."""
        return app.json({"adapters": self._adapters.states()})

    async def replace(self, call: Call) -> Response:
        """PUT /v1/adapters: desire exactly these."""
        wanted = (await self._reading.content(call, _Set)).adapters
        seen: set[str] = set()
        for index, each in enumerate(wanted):
            if each.name in seen:
                raise ApiError(400, f"adapters[{index}].name: {each.name!r} is there twice")
            seen.add(each.name)
        _kept(lambda: self._adapters.replace([each.adapter() for each in wanted]))
        return await self.show(call)

    async def load(self, call: Call) -> Response:
        """POST /v1/load_lora_adapter: respond when it is loaded, or at once."""
        wanted = await self._reading.content(call, _Load)
        name = wanted.lora_name
        directory = str(self._reading.directory(wanted.output_dir)) if wanted.output_dir else ""
        if self._adapters.state(name) is None and len(self._adapters.states()) >= MAX_ADAPTERS:
            raise ApiError(409, f"there are {MAX_ADAPTERS} adapters already: unload one")
        _kept(lambda: self._adapters.add(Adapter(name, wanted.source, directory)))
        if wanted.async_download:
            return app.json({"message": f"adapter {name} is being downloaded: see GET /v1/adapters"})
        error = await call.while_connected(self._settled(name))
        if error:
            _kept(lambda: self._adapters.remove(name))
            raise ApiError(502, f"adapter {name}: {error}")
        return app.json({"message": f"adapter {name} is loaded"})

    async def unload(self, call: Call) -> Response:
        """POST /v1/unload_lora_adapter: respond when it is unloaded."""
        name = (await self._reading.content(call, _Unload)).lora_name
        if not _kept(lambda: self._adapters.remove(name)):
            raise ApiError(404, f"there is no adapter {name}")
        await call.while_connected(self._gone(name))
        return app.json({"message": f"adapter {name} is unloaded"})

    async def _settled(self, name: str) -> str:
        """The error of an adapter, empty once it is loaded."""
        while (found := self._adapters.state(name)) is not None:
            if found.state != "Loading":
                return found.error
            await self._adapters.changed()
        return "it was unloaded meanwhile"

    async def _gone(self, name: str) -> None:
        while self._adapters.is_leaving(name):
            await self._adapters.changed()


class DownloadCalls:
    """The handlers for downloads."""

    def __init__(self, reading: Reading, fetch: Fetch, status_dirs: Sequence[Path]) -> None:
        self._reading = reading
        self._fetch = fetch
        self._status_dirs = status_dirs
        self._running: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def show(self, _: Call) -> Response:
        """GET /v1/downloads."""
        return app.json({"downloads": [each for place in self._status_dirs for each in progress.read(place)]})

    async def download(self, call: Call) -> Response:
        """POST /v1/download_model: respond when it is complete, or at once."""
        wanted = await self._reading.content(call, _Download)
        directory = self._reading.directory(wanted.output_dir)
        if len(self._running) >= MAX_DOWNLOADS:
            raise ApiError(503, f"{MAX_DOWNLOADS} downloads are running: try again")
        task = asyncio.create_task(self._fetch(wanted.source, directory, directory.name))
        self._running.add(task)
        task.add_done_callback(self._done)
        if wanted.async_download:
            return app.json({"message": f"{wanted.source} is being downloaded: see GET /v1/downloads"})
        try:
            await call.while_connected(_result(task))
        except FetchError as error:
            raise ApiError(502, str(error)) from error
        return app.json({"message": f"{wanted.source} is in {directory}"})

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # its caller may have left; the progress file has it


async def _result(task: asyncio.Task[None]) -> None:
    """Without cancelling it: a download goes on when its caller leaves."""
    await asyncio.shield(task)


def _kept(change: Callable[[], T]) -> T:
    try:
        return change()
    except OSError as error:
        raise ApiError(500, f"the desired adapters cannot be kept: {error}; see --state-dir") from error
