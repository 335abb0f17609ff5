"""All objects of a gateway without an API server, kept current."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from headgate.api.stored_object import StoredObject
from headgate.kubeschema import timestamps
from headgate.standalone import composing, watching
from headgate.standalone.endpoint import FollowedUrl
from headgate.standalone.files import FollowedFiles, Read
from headgate.standalone.resolving import Resolver
from headgate.standalone.settings import Settings
from headgate.standalone.stored import stored
from headgate.standalone.urls import EndpointUrl, Place

log = logging.getLogger(__name__)

PATIENCE_S: Final = 3.0
"""How long a start waits for engines that do not answer: the others are served then."""
TOGETHER_S: Final = 0.02
"""Changes within this time are published together."""


class StandaloneObjects:
    """Publishes all objects whenever some have changed, while `run` runs."""

    def __init__(
        self,
        settings: Settings,
        read: Read,
        past: Sequence[StoredObject] = (),
    ) -> None:
        """`past`: the objects of the process before an upgrade, which count until engines have been asked."""
        self.settings = settings
        self.files = FollowedFiles(settings.files, read, self._touch)
        self.urls: dict[EndpointUrl, FollowedUrl] = {}
        self.publish: Callable[[Sequence[StoredObject]], None] = lambda objects: None
        """Called with all objects whenever some have changed."""
        self._published: tuple[StoredObject, ...] = tuple(past)
        self._leaving: dict[Place, FollowedUrl] = {}
        """Former URLs, whose servers count until the new URL that leads to them is known."""
        self._resolver = Resolver(settings.dns_servers)
        self._turns = asyncio.Semaphore(watching.MAX_ASKED)
        self._touched = asyncio.Event()
        self._created = timestamps.seconds(time.time())
        """Of what is made of URLs: objects in files are older, and precede them."""
        self._shadowed: frozenset[str] = frozenset()

    @property
    def objects(self) -> tuple[StoredObject, ...]:
        """Those that were published last."""
        return self._published

    @property
    def failed_lookups(self) -> int:
        """Of all host names so far."""
        return self._resolver.failures

    @property
    def errors(self) -> list[str]:
        """Why files are not in effect."""
        return [error for errors in self.files.errors.values() for error in errors]

    def _touch(self) -> None:
        self._touched.set()

    def change(self, settings: Settings) -> None:
        """Apply other settings."""
        if settings.dns_servers != self.settings.dns_servers:
            self._resolver = Resolver(settings.dns_servers, self._resolver.failures)
            self._leave(set(self.urls))
        self.settings = settings
        self.files.change(settings.files)
        self._touch()

    # -- following

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.files.run())
            self._follow(tasks)
            await self._until_asked()
            while True:
                self._touched.clear()
                self._follow(tasks)
                self._tell()
                await self._touched.wait()
                await asyncio.sleep(TOGETHER_S)

    def _follow(self, tasks: asyncio.TaskGroup) -> None:
        wanted = dict.fromkeys(self.settings.urls)
        self._leave(self.urls.keys() - wanted.keys())
        for url in wanted:
            if url not in self.urls:
                followed = FollowedUrl(url, self._resolver, lambda: self.settings, self._turns, self._touch)
                self.urls[url] = followed
                followed.start(tasks)

        gone = self._leaving.keys() - {url.place for url, each in self.urls.items() if not each.is_known}
        for place in gone:
            self._leaving.pop(place).stop()

    def _leave(self, urls: set[EndpointUrl]) -> None:
        """Stop following these, once others that lead to the same servers are known: a URL with another
        weight is another URL."""
        for url in urls:
            followed = self.urls.pop(url)
            if (before := self._leaving.pop(url.place, None)) is not None:
                before.stop()
            self._leaving[url.place] = followed

    async def _until_asked(self) -> None:
        """Wait until every engine has been asked once, or for PATIENCE_S: clients should find all models from
        the first moment on."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while not all(each.is_known for each in self.urls.values()):
                    self._touched.clear()
                    await self._touched.wait()

    async def asked(self) -> list[dict[str, Any]]:
        """The objects as they are once every engine has been asked, without following them."""
        async with asyncio.TaskGroup() as tasks:
            self._follow(tasks)
            await self._until_asked()
            found = self.composed()
            for each in self.urls.values():
                each.stop()
        return found

    def composed(self) -> list[dict[str, Any]]:
        """The objects made of URLs."""
        known = (
            each if each.is_known else self._leaving.get(url.place, each) for url, each in self.urls.items()
        )
        return composing.objects(engine for each in known for engine in each.engines())

    def _tell(self) -> None:
        """Publish the present objects, if they differ from the last ones."""
        found = {each.place: each for each in self.files.objects()}
        shadowed = set()
        for obj in self.composed():
            each = stored(obj, self._created)
            if found.setdefault(each.place, each) is not each:
                shadowed.add(f"{obj['kind']} {each.namespace}/{each.name}")
        for name in shadowed - self._shadowed:
            log.warning("%s of a file is in effect, and not the one made of --endpoint", name)
        self._shadowed = frozenset(shadowed)
        objects = tuple(found.values())
        if objects != self._published or not objects:
            self._published = objects
            self.publish(objects)

    def shown(self) -> dict[str, Any]:
        """For the debug page."""
        return {
            "objects": len(self._published),
            "endpoints": [each.shown() for each in self.urls.values()],
            "files": self.files.shown(),
            "errors": self.errors,
        }

    def statistics(self) -> dict[str, int]:
        engines = [engine for each in self.urls.values() for engine in each.engines()]
        return {
            "objects": len(self._published),
            "endpoints": len(self.urls),
            "servers": len(engines),
            "servers_ready": sum(each.is_ready for each in engines),
            "failed_lookups": self.failed_lookups,
        }
