"""The credentials that a process accepts now, from all of their sources."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hmac
import logging
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headgate import private_files
from headgate.api import Tenant
from headgate.auth import keys
from headgate.auth.directory import Directory
from headgate.auth.gate import Gate
from headgate.auth.keys import Key
from headgate.auth.outcome import MISSING, NO_ADMIN, UNKNOWN, Denial
from headgate.auth.token_cache import TokenCache
from headgate.dataplane.credentials import key_file, required, tenant_file
from headgate.dataplane.credentials.aside import aside
from headgate.dataplane.credentials.key_set import TIMEOUT_S, KeySet
from headgate.dataplane.settings.auth import Auth

log = logging.getLogger(__name__)

MAX_TOKEN_BYTES = 4096
POLL_S = 0.25
"""How often the files are looked at: a revoked key is rejected after that."""

_KEYS_FILE, _TENANTS_FILE = "auth.keys_file", "auth.tenants_file"
_TENANTS = "Tenants"
"""The place of trouble with those of a cluster."""


class _Cluster:
    """What Secrets and Tenants say, by their name."""

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {}
        self.tenants: dict[str, Tenant] = {}
        self.are_tenants_known = True
        """Not while they are to be read, and have not been."""
        self.is_due = False
        """Whether they have changed, and are about to be applied."""


class _File(NamedTuple):
    """A file of keys or of tenants."""

    place: str
    """The setting that names it."""
    path: str | None
    state: tuple[int, ...] = ()
    """What changes when the file does."""


def _content_of(file: _File) -> list[Key] | dict[str, Tenant] | str:
    """What the file says, or why it cannot be used."""
    try:
        if file.place == _KEYS_FILE:
            return key_file.read(Path(file.path)) if file.path else []
        return tenant_file.read(Path(file.path)) if file.path else {}
    except ValueError as error:
        return str(error)


class _Known(NamedTuple):
    """All keys and tenants at one moment."""

    keys: list[Key]
    tenants: dict[str, Tenant]
    are_tenants_known: bool


def _directory(known: _Known) -> Directory:
    return Directory(known.keys, known.tenants, are_tenants_known=known.are_tenants_known)


class Credentials:
    """Owned by a process. Bad files are reported, and what they said before stays in effect; while keys or
    tenants have never been read, nobody is let in."""

    def __init__(
        self, auth: Auth, content: dict[str, Any] | None = None, *, verifies_tokens: bool = True
    ) -> None:
        """`content`: that of the scheduler's configuration file. Only keys open pages, so where there are
        only pages, in the supervisor, tokens need not be verified. It reads the same files as all workers,
        and logs their errors for them."""
        self.gate: Gate | None = None
        """None if no credentials are needed."""
        self.changed: Callable[[], None] = lambda: None
        """Called when keys, tenants or settings have changed."""
        self.tenants: Mapping[str, Tenant] = {}
        self.troubles: dict[str, str] = {}
        """Sources that cannot be read, and why."""
        self._auth, self._content = auth, content
        self._verifies_tokens = verifies_tokens
        self._keys: list[Key] = []
        self._defined: dict[str, Tenant] | None = None
        """Those of the file; None until it is read."""
        self._cluster = _Cluster()
        self._seen: dict[str, tuple[int, ...]] = {}
        self._key_set: KeySet | None = None
        self._cache: TokenCache | None = None
        self._again = asyncio.Event()
        self._apply()

    def change(self, auth: Auth, content: dict[str, Any] | None) -> None:
        """Apply new settings."""
        if (auth, content) == (self._auth, self._content):
            return
        self._auth, self._content = auth, content
        self._apply()
        self._again.set()

    def _apply(self) -> None:
        self._seen.clear()
        self._keys, self._defined = ([], {}) if self._auth.mode == "off" else (self._keys, self._defined)
        found = required.trusted(self._auth, self._content)
        if found is None or not self._verifies_tokens:
            self._key_set = None
        elif self._key_set is None or self._key_set.source != found.keys:
            self._key_set = KeySet(found.keys, self._build)
        self.look()

    def look(self) -> None:
        """Read the files that have changed."""
        for each in self._changed_files():
            self._take(each, _content_of(each))
        self._build()

    async def run(self) -> None:
        """Follow files and key sets until cancelled."""
        while True:
            self._again.clear()
            key_set = self._key_set
            async with asyncio.TaskGroup() as tasks:
                following = [tasks.create_task(self._follow_files())]
                if key_set is not None:
                    following.append(tasks.create_task(key_set.run()))
                await self._again.wait()
                for task in following:
                    task.cancel()

    async def settle(self) -> None:
        """Wait while `run` fetches the keys of an issuer for the first time: at most TIMEOUT_S."""
        if self._key_set is None:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):  # new settings may replace the key set meanwhile
                await self._key_set.tried.wait()

    async def _follow_files(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if changed := self._changed_files():
                # In a thread: with thousands of tenants, this takes seconds.
                auth = self._auth
                contents = await aside(lambda: [_content_of(each) for each in changed])
                if auth is not self._auth:
                    continue
                for each, content in zip(changed, contents, strict=True):
                    self._take(each, content)
                before = self.tenants
                directory = await aside(functools.partial(_directory, self._known()))
                if self.tenants is before and auth is self._auth and not self._cluster.is_due:
                    self._use(directory)
                else:
                    self._build()

    # -- objects of a cluster

    def put_key(self, name: str, key: Key | str | None) -> None:
        """A Secret has this key, or none, or cannot be used for this reason."""
        place = f"Secret {name}"
        self.troubles.pop(place, None)
        self._cluster.keys.pop(name, None)
        if isinstance(key, Key):
            self._cluster.keys[name] = key
        elif key is not None:
            self._trouble(place, key)
        self._build_soon()

    def await_tenants(self) -> None:
        """Tenants of a cluster will come: until `have_tenants`, nobody knows what they may do."""
        self._cluster.are_tenants_known = False
        self.troubles[_TENANTS] = "not read yet"
        self._build()

    def have_tenants(self) -> None:
        """All Tenants have been put."""
        self._cluster.are_tenants_known = True
        self.troubles.pop(_TENANTS, None)
        self._build()

    def put_tenant(self, name: str, tenant: Tenant | None) -> None:
        if tenant is None:
            self._cluster.tenants.pop(name, None)
        else:
            self._cluster.tenants[name] = tenant
        self._build_soon()

    def _build_soon(self) -> None:
        """Once for all changes that arrive together, of which there may be thousands."""
        if not self._cluster.is_due:
            self._cluster.is_due = True
            asyncio.get_running_loop().call_soon(self._build)

    # -- files

    def _changed_files(self) -> list[_File]:
        auth = self._auth
        if auth.mode == "off":
            return []
        files = (_File(_KEYS_FILE, auth.keys_file), _File(_TENANTS_FILE, auth.tenants_file))
        found = [each._replace(state=_signature(each.path)) for each in files]
        return [each for each in found if self._seen.get(each.place) != each.state]

    def _take(self, file: _File, content: list[Key] | dict[str, Tenant] | str) -> None:
        """Use the content of a file from now on; a text says why there is none."""
        self._seen[file.place] = file.state
        if isinstance(content, str):
            self._trouble(file.place, content, logging.DEBUG if self._verifies_tokens else logging.ERROR)
            return
        self.troubles.pop(file.place, None)
        if isinstance(content, dict):
            self._defined = content
        else:
            self._keys = content

    def _trouble(self, place: str, why: str, level: int = logging.ERROR) -> None:
        if self.troubles.get(place) != why:
            log.log(level, "%s: %s; what it said before stays in effect", place, why)
        self.troubles[place] = why

    # -- what follows

    def _known(self) -> _Known:
        tenants = {**self._cluster.tenants, **(self._defined or {})}
        return _Known(
            [*self._cluster.keys.values(), *self._keys],
            {} if self._auth.mode == "off" else tenants,
            self._defined is not None and self._cluster.are_tenants_known,
        )

    def _build(self) -> None:
        self._use(_directory(self._known()))

    def _use(self, directory: Directory) -> None:
        """Admit the clients of this directory from now on."""
        self._cluster.is_due = False
        found = required.trusted(self._auth, self._content)
        self.tenants = directory.tenants
        if not required.are_required(self._auth, self._content):
            self.gate = self._cache = None
        else:
            self._cache = None
            if found is not None and (key_set := self._key_set) is not None:
                self._cache = TokenCache(found.issuer, directory, lambda: key_set.keys, key_set.want)
            self.gate = Gate(
                directory,
                self._cache,
                by_certificate=self._auth.mtls,
                keeps=self._auth.forward_credentials,
            )
        self.changed()

    # -- the pages of operators

    @property
    def guards_pages(self) -> bool:
        """Whether the metrics and admin pages need credentials."""
        auth = self._auth
        return auth.admin_token_file is not None or required.are_required(auth, self._content)

    def opens_pages(self, credential: bytes) -> Denial | None:
        """None if this key or token opens the metrics and admin pages."""
        return _opens_pages(credential, self.gate, self._auth.admin_token_file)

    def statistics(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "required": self.gate is not None,
            "keys": len(self._keys) + len(self._cluster.keys),
            "tenants": len(self.tenants),
            "troubles": dict(self.troubles),
        }
        if self._cache is not None:
            found["tokens"] = self._cache.statistics()
        if (key_set := self._key_set) is not None:
            found["key_set"] = {"keys": len(key_set.keys), "trouble": key_set.trouble}
        return found


def _opens_pages(credential: bytes, gate: Gate | None, token_file: str | None) -> Denial | None:
    if token_file is not None:
        with contextlib.suppress(OSError):
            token = private_files.read(Path(token_file), MAX_TOKEN_BYTES).strip()
            if token and hmac.compare_digest(keys.digest(token), keys.digest(credential)):
                return None
    if not credential:
        return MISSING
    found = gate.identify(credential, time.time()) if gate is not None else UNKNOWN
    if isinstance(found, Denial):
        return found
    return None if found.is_admin else NO_ADMIN


def _signature(file: str | None) -> tuple[int, ...]:
    """Changes with the content of a file, its mode, and the target of a link to it."""
    if file is None:
        return ()
    try:
        found = os.stat(file)
    except OSError:
        return (-1,)
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
