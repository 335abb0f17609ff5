"""The API server's parts without sockets, used by the server and by tests."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from headgate import api, garbage
from headgate.apiserver import accounts, builtin, errors, reviews, users
from headgate.apiserver.account_tokens import AccountTokens
from headgate.apiserver.calls import Shared
from headgate.apiserver.collector import Collector
from headgate.apiserver.connections import MAX_LOG_STREAMS, Limits
from headgate.apiserver.handlers.large_writes import LargeWrites
from headgate.apiserver.handlers.rest import Rest
from headgate.apiserver.handlers.writing import Writer
from headgate.apiserver.judge import Judge
from headgate.apiserver.objects import Objects
from headgate.apiserver.registry import Registry
from headgate.apiserver.storage import Event, Key, NoSpaceError, Store, Stored
from headgate.apiserver.targets import Target, WriteOptions
from headgate.apiserver.watch import Hub

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Config:
    """State directory, address and limits of the server."""

    state: Path
    host: str = "127.0.0.1"
    port: int = 6443
    definitions: Sequence[dict[str, Any]] | None = None
    """CustomResourceDefinitions to install at start; None for Headgate's own."""
    bookmark_s: float = 30
    max_objects: int = 100_000
    max_bytes: int = 2 << 30
    """Size of all objects together, the same limit as etcd's."""
    watch_events: int = 4096
    watch_bytes: int = 16 << 20
    watch_bytes_in_all: int = 64 << 20
    max_watchers: int = 2000
    max_waiting: int = 1000
    """Requests waiting for their turn."""
    body_bytes: int = 256 << 20
    """Bodies of all requests in progress."""
    unread_bytes: int = 128 << 20
    """Data that clients have requested but not read yet."""
    connections: Limits = field(default_factory=Limits)


@functools.cache
def _builtin_definitions() -> tuple[dict[str, Any], ...]:
    """Cached, because it takes 45 ms: most of a start, and of each test."""
    return tuple(api.builtin_definitions())


class _Metadata(msgspec.Struct):
    uid: str = ""
    generation: int = 0


class _Head(msgspec.Struct):
    metadata: _Metadata


_HEAD = msgspec.json.Decoder(_Head)


def _generation(definition: Stored) -> tuple[str, int]:
    """Changes with the spec of a definition."""
    metadata = _HEAD.decode(definition.body).metadata
    return metadata.uid, metadata.generation


class Parts:
    """Everything behind the sockets, usable without them."""

    def __init__(self, config: Config) -> None:
        self.limits = config.connections.affordable()
        self.shared = Shared(
            connections=self.limits.known,
            watches=config.max_watchers,
            log_streams=MAX_LOG_STREAMS,
            waiting=config.max_waiting,
            body_bytes=config.body_bytes,
            unread_bytes=config.unread_bytes,
        )
        config.state.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.store = Store(config.state / "objects.sqlite")
        try:
            self.registry = Registry(_builtin_definitions(), reviews.DEFINITIONS)
            self.tokens = users.Tokens(config.state)
            self.account_tokens = AccountTokens(config.state, self.store)
            own = config.definitions
            if own is None:
                own = [*api.custom_definitions(), *api.borrowed_definitions()]
            self.objects = Objects(
                self.store,
                self.registry,
                max_objects=config.max_objects,
                max_bytes=config.max_bytes,
                judge=Judge(own),
            )
            self.hub = Hub(
                self.store,
                max_events=config.watch_events,
                max_bytes=config.watch_bytes,
                max_bytes_in_all=config.watch_bytes_in_all,
            )
            self.large_writes = LargeWrites(self.objects, own, rejected=self.shared.rejected)
            writer = Writer(self.objects, self.large_writes)
            self.rest = Rest(self.objects, self.hub, writer, self.account_tokens, config.bookmark_s)
            self._serve_definitions()
            self.objects.store_view.follow()
            self.collector = Collector(self.objects)
            self._install(own)
        except BaseException as error:
            self.store.close()
            if errors.is_full(error):
                raise NoSpaceError(config.state) from error
            raise

    def statistics(self) -> dict[str, dict[str, int]]:
        return {
            "store": self.store.statistics(),
            "hub": self.hub.statistics(),
            "collector": self.collector.statistics(),
            "judge": self.objects.judge.statistics(),
            "large_writes": self.large_writes.statistics(),
            "index": self.objects.store_view.statistics(),
            **self.shared.statistics(),
        }

    def _serve_definitions(self) -> None:
        """Serve the kinds of stored definitions, and follow later changes."""
        for stored in self.store.select(builtin.DEFINITION):
            self._register(stored)
        self.store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.new.key.resource != builtin.DEFINITION:
            return
        if event.type == "MODIFIED" and event.old and _generation(event.old) == _generation(event.new):
            return  # a large schema takes long to decode, and has not changed
        with garbage.collector_paused():
            if event.type == "DELETED":
                self.registry.forget(event.new.decode())
            else:
                self._register(event.new)

    def _register(self, stored: Stored) -> None:
        """Headgate's own definitions count as small: their schemas cost little."""
        definition = stored.decode()
        is_own = self.objects.judge.trusts(definition)
        self.registry.register(definition, 0 if is_own else len(stored.body))

    def _install(self, definitions: Sequence[dict[str, Any]]) -> None:
        """Create the objects that every cluster has, and update definitions to this release."""
        for name in builtin.FIRST_NAMESPACES:
            if self.store.get(Key(builtin.NAMESPACE, "", name)) is None:
                self._create("namespaces", {"metadata": {"name": name}})
        self.store.flush()
        self._unless_full("the accounts of the namespaces", lambda: accounts.give_all(self.objects))
        for definition in definitions:
            self._unless_full(
                definition["metadata"]["name"], functools.partial(self._create_or_update, definition)
            )

    def _unless_full(self, name: str, write: Callable[[], None]) -> None:
        """A server with objects also starts on a full disk, so that they can be read and deleted."""
        try:
            write()
            self.store.flush()
        except Exception as error:
            if not errors.is_full(error):
                raise
            log.error("%s: left as it was, since the disk is full: %s", name, error)

    def _create(self, plural: str, obj: dict[str, Any], group: str = "") -> None:
        served = self.registry.find(group, "v1", plural)
        assert served, f"{plural} must be among the built-in definitions"
        self.objects.create(Target(served, "", ""), obj, WriteOptions(field_manager="headgate"), [])

    def _create_or_update(self, definition: dict[str, Any]) -> None:
        resource = api.CustomResourceDefinition.resource
        name = definition["metadata"]["name"]
        stored = self.store.get(Key(resource.qualified_name, "", name))
        definition = msgspec.json.decode(msgspec.json.encode(definition))
        if stored is None:
            self._create(resource.plural, definition, resource.group)
            return
        served = self.registry.find(resource.group, resource.version, resource.plural)
        assert served
        current = stored.decode()
        current["spec"] = definition["spec"]
        options = WriteOptions(field_manager="headgate")
        self.objects.update(Target(served, "", name), current, options, [])
