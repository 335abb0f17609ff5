"""Follows the file of external providers, and the places of their keys."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from headgate import api, cluster, routing
from headgate.dataplane.providers import heads, key_reading, provider_file
from headgate.dataplane.providers.provider_file import ProviderFileError, Read
from headgate.dataplane.settings.providers import Providers as Settings
from headgate.requests.client import ClientRequest

log = logging.getLogger(__name__)

POLL_S: Final = 0.5
"""How often files are looked at."""


class GoneError(Exception):
    """A provider is no longer what a request was decided for."""


class Providers:
    """Owned by a process. A bad file is reported, and what it said before stays in effect; a provider without
    a key is not used."""

    def __init__(self, settings: Settings) -> None:
        self.changed: Callable[[], None] = lambda: None
        """Called when the providers that can be used have changed."""
        self.troubles: dict[str, str] = {}
        """Why providers cannot be used, by name; under "", why the file is not in effect."""
        self._settings = settings
        self._read: list[Read] = []
        self._usable: dict[str, tuple[routing.Provider, bytes]] = {}
        self._secrets: dict[api.ObjectKey, api.Secret] = {}
        self._seen: tuple[tuple[int, ...], ...] | None = None
        self._unread: tuple[str, ...] = ()
        """Files that kept the file of providers from being read."""
        self._followed: cluster.NamedObjects[api.Secret] | None = None
        self.look()

    def change(self, settings: Settings) -> None:
        """Apply new settings."""
        if settings != self._settings:
            self._settings = settings
            self._seen = None
            self.look()

    @property
    def has_file(self) -> bool:
        """Whether the settings name a file of providers."""
        return self._settings.file is not None

    @property
    def is_valid(self) -> bool:
        """Whether what the file says now is in effect."""
        return "" not in self.troubles

    def listed(self) -> list[routing.Provider]:
        """Those in the file, with and without a key."""
        return [read.provider for read in self._read]

    def usable(self) -> list[routing.Provider]:
        """Those that have a key."""
        return [provider for provider, _ in self._usable.values()]

    def head(self, pool: routing.Pool, asked: ClientRequest, length: int) -> bytes:
        """The head for a request of a client to the pool of a provider. Raises GoneError if it has gone, or
        moved: its present key must not go to where it was."""
        provider, key = self._usable.get(pool.key.name, (None, b""))
        if provider is None or (now := provider.pool()).endpoints != pool.endpoints or now.tls != pool.tls:
            raise GoneError(f"the provider {pool.key.name} was removed or changed")
        return heads.request(provider, key, asked, length)

    def statistics(self) -> dict[str, Any]:
        return {"usable": sorted(self._usable), "troubles": dict(self.troubles)}

    # -- files

    def look(self) -> None:
        """Read the files that have changed."""
        files = self._files()
        seen = tuple(map(_signature, files))
        if seen == self._seen:
            return
        file = self._settings.file
        try:
            self._read = provider_file.read(Path(file)) if file is not None else []
            self._unread = ()
            if self.troubles.pop("", None) is not None:
                log.info("providers.file: %s is in effect again", file)
        except ProviderFileError as error:
            if self.troubles.get("") != str(error):
                for problem in error.problems:
                    log.error("providers.file: %s", problem)
                log.error("providers.file: what it said before stays in effect")
            self.troubles[""] = str(error)
            self._unread = error.files
        # Of other files than before, nobody knows whether they have changed since they were read.
        self._seen = seen if self._files() == files else None
        if self._followed is not None:
            self._followed.follow(self._named_secrets())
        self._build()

    def _files(self) -> list[str]:
        file = self._settings.file
        if file is None:
            return []
        return [file, *self._unread, *(each for read in self._read for each in read.files)]

    async def run(self, source: cluster.Source | None) -> None:
        """Follow files and Secrets until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            if source is not None:
                self._followed = cluster.NamedObjects(source, api.Secret, self._put_secret)
                self._followed.follow(self._named_secrets())
                tasks.create_task(self._followed.run())
            while True:
                await asyncio.sleep(POLL_S)
                self.look()

    # -- Secrets

    def _named_secrets(self) -> set[api.ObjectKey]:
        names = [read.key.secret for read in self._read if read.key.secret is not None]
        return {api.ObjectKey(*name.split("/")[:2]) for name in names}

    def _put_secret(self, change: cluster.Change[api.Secret]) -> None:
        key = change.object.metadata.key
        if change.new is None:
            self._secrets.pop(key, None)
        else:
            self._secrets[key] = change.new
        self._build()

    # -- what follows

    def _build(self) -> None:
        before, troubles = self._usable, dict[str, str]()
        self._usable = {}
        for read in self._read:
            name = read.provider.name
            try:
                key = key_reading.read(read.key, self._secrets, os.environ)
            except key_reading.UnusableKeyError as error:
                troubles[name] = str(error)
                if self.troubles.get(name) != str(error):
                    log.warning("the provider %s is not used: %s", name, error)
            else:
                self._usable[name] = (read.provider, key)
        if "" in self.troubles:
            troubles[""] = self.troubles[""]
        if (before, self.troubles) != (self._usable, troubles):
            self.troubles = troubles
            self.changed()


def _signature(file: str) -> tuple[int, ...]:
    """Changes with the content of a file, its mode, and the target of a link to it."""
    try:
        found = os.stat(file)
    except OSError:
        return (-1,)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
