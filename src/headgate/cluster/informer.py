"""A local copy of one kind that follows the server: list, diff, watch, and again after any failure.

Written here because no asynchronous client reports what was deleted while its watch was down and its resource
version expired. The contract: handlers get each object ADDED, then MODIFIED any number of times, then
DELETED; and the copy equals the server's state once it is in contact.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic

import msgspec

from headgate import api
from headgate.cluster.client import PAGE_SIZE
from headgate.cluster.errors import ApiError, Forbidden, Gone, NotFound
from headgate.cluster.local_objects import Source
from headgate.cluster.outage import Backoff, Outage
from headgate.cluster.reading import Reader, identity
from headgate.cluster.rights import Denied
from headgate.cluster.store import ChangeKind, Handler, K, Store, Subscribers
from headgate.garbage import collector_paused

log = logging.getLogger(__name__)

# A stream that ends sooner without any event counts as a failure, or a broken server would be polled in a
# loop.
_SHORTEST_WATCH_S = 1.0
OBJECT_NAME = "metadata.name="
"""Begin of the field selector of a single object."""


@dataclass(frozen=True)
class Pacing:
    """The delays of an informer; tests shorten them."""

    backoff: Backoff = field(default_factory=Backoff)
    watch_min_s: int = 300
    watch_max_s: int = 600
    watch_slack_s: float = 15.0
    page_size: int = PAGE_SIZE
    absent_s: float = 60.0
    """How long a known kind must be absent until its objects count as deleted."""


@dataclass(frozen=True)
class InformerStatistics:
    objects: int
    synced: bool
    events: int
    relists: int
    restarts: int
    handler_failures: int
    unreadable: dict[str, str]
    """Objects that do not decode into their kind, with the error; the copy keeps the last state that did."""
    last_contact_age_s: float | None
    """Seconds since the last list or event, bookmarks included."""
    last_error: str | None


def scopes(namespaces: Sequence[str]) -> Sequence[str | None]:
    """The namespaces of the informers that follow a kind: None, for all of them, if none is named.

    Each has an informer of its own, as access may be granted for each.
    """
    return tuple(dict.fromkeys(namespaces)) or (None,)


@dataclass(frozen=True)
class _Scope:
    """Which objects are followed."""

    resource: api.Resource
    namespace: str | None
    """None for all."""
    label_selector: str | None
    field_selector: str | None

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace)

    @property
    def selectors(self) -> dict[str, str | None]:
        """Parameters of a query."""
        return {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}

    def denied(self, message: str) -> Denied:
        """The server denies access, and gives this reason."""
        name = (self.field_selector or "").removeprefix(OBJECT_NAME)
        return Denied(self.resource, self.namespace, message, name)


class _Contact:
    """The state of the contact with the server, and recent failures."""

    def __init__(self, path: str, outage: Outage) -> None:
        self._path = path
        self._outage = outage
        self._begun_at = 0.0
        self._last_at: float | None = None
        self._expired = 0
        self.failures = 0
        """Consecutive failures."""
        self.restarts = self.lists = self.events = 0
        self.absent_since: float | None = None
        self.denied: Denied | None = None
        self.last_error: str | None = None

    @property
    def age_s(self) -> float | None:
        return None if self._last_at is None else time.monotonic() - self._last_at

    def begun(self) -> None:
        """A request begins."""
        self._begun_at = time.monotonic()

    def listed(self) -> None:
        self.lists += 1
        self.absent_since = self.denied = None
        self._made_contact()

    def event_arrived(self) -> None:
        """An event arrived."""
        self.events += 1
        self._made_contact()

    def _made_contact(self) -> None:
        self._last_at = now = time.monotonic()
        self._outage.responded(now)

    def proven(self) -> None:
        """The watch works: the next failure is a first one."""
        self.failures = self._expired = 0

    def expired(self, error: Gone) -> bool:
        """Whether the version of the watch has merely aged: if it always expires, the next list is
        delayed."""
        self.failed(error)
        self._expired += 1
        return self._expired == 1

    def absent(self) -> float:
        """Record that the server does not have the kind. Returns for how many seconds."""
        self.failures += 1
        now = time.monotonic()
        self._outage.responded(now)
        self.denied = None
        if self.absent_since is None:
            self.absent_since = now
            log.warning("%s is not served: it is looked for now and then", self._path)
        return now - self.absent_since

    def forbidden(self, denied: Denied, known: int) -> None:
        """Record that the server denies access; `known` is the number of objects in the copy."""
        self.failures += 1
        self.last_error = denied.why
        self._outage.responded(time.monotonic())
        if self.denied is None:
            kept = "; the objects that were read stay in use" if known else ""
            log.warning("%s%s. Access is tried again now and then", denied, kept)
        self.denied = denied

    def failed(self, error: ApiError) -> None:
        self.failures += 1
        self.restarts += 1
        self.last_error = str(error)
        is_outage = self._outage.failed(error, self._begun_at, time.monotonic())
        log.log(logging.DEBUG if is_outage else logging.INFO, "following %s: %s", self._path, error)


class Informer(Generic[K]):
    """Follows one kind, of one namespace or all, narrowed by selectors.

    `run()` works until it is cancelled and survives everything that a server or network does. Handlers are
    called synchronously, in order, when an event arrives: they must be quick, e.g. add a key to a queue.
    """

    def __init__(
        self,
        client: Source,
        kind: type[K],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        pacing: Pacing | None = None,
        rng: random.Random | None = None,
        may_be_absent: bool = False,
        reduced: Callable[[K], K] | None = None,
    ) -> None:
        """`may_be_absent`: while the server lacks the kind, because its definition is not installed, or has
        denied access since the start, there are no objects of it. Known objects are kept while access is
        denied, unless their namespace is gone. `reduced` returns the part of an object that the copy
        keeps."""
        self._client = client
        self._scope = _Scope(kind.resource, namespace, label_selector, field_selector)
        self._pacing = pacing or Pacing()
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._store: Store[K] = Store()
        self._subscribers: Subscribers[K] = Subscribers(kind.resource.kind)
        self._reader = Reader(kind, self._scope.path, reduced)
        self._contact = _Contact(self._scope.path, client.outage)
        self._version: str | None = None
        self._may_be_absent = may_be_absent
        self._responded = asyncio.Event()
        self.synced = asyncio.Event()

    # Reading

    def get(self, namespace: str, name: str) -> K | None:
        """The object as last reported; `namespace` is "" for cluster-scoped kinds."""
        return self._store.get(api.ObjectKey(namespace, name))

    def items(self) -> Sequence[K]:
        """All objects, in no particular order."""
        return tuple(self._store.values())

    def subscribe(self, handler: Handler[K]) -> Callable[[], None]:
        """Call `handler` with every change, starting with an ADDED of each known object.

        Returns a function that unsubscribes. An exception of a handler is logged and counted, and stops
        nothing.
        """
        return self._subscribers.add(handler, self.items())

    async def wait_synced(self, timeout_s: float | None = None) -> None:
        """Wait until the first list is in the copy and handlers have seen it; TimeoutError after
        `timeout_s`."""
        async with asyncio.timeout(timeout_s):
            await self.synced.wait()

    async def wait_known(self, patience_s: float) -> None:
        """Wait as `wait_synced` does, but if access is denied, no longer than `patience_s` after that."""
        await self._responded.wait()
        with contextlib.suppress(TimeoutError):
            await self.wait_synced(patience_s if self.denied is not None else None)

    @property
    def is_served(self) -> bool:
        """Whether the server has the kind, as far as is known."""
        return self._contact.absent_since is None

    @property
    def denied(self) -> Denied | None:
        """Why the server denies access; None if it does not."""
        return self._contact.denied

    def statistics(self) -> InformerStatistics:
        contact = self._contact
        return InformerStatistics(
            objects=len(self._store),
            synced=self.synced.is_set(),
            events=contact.events,
            relists=contact.lists,
            restarts=contact.restarts,
            handler_failures=self._subscribers.failures,
            unreadable={str(key): error for key, error in self._reader.unreadable.items()},
            last_contact_age_s=contact.age_s,
            last_error=contact.last_error,
        )

    # Following the server

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            self._contact.begun()
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
                continue
            except Gone as error:
                failure: ApiError = error
                self._version = None
                if self._contact.expired(error):
                    continue
            except NotFound as error:
                failure = error
                self._absent(error)
            except Forbidden as error:
                failure = error
                await self._forbidden(error)
            except ApiError as error:
                failure = error
                self._contact.failed(error)
            pause_s = self._pacing.backoff.delay_s(self._contact.failures, self._rng)
            await self._client.outage.pause(pause_s, failure)

    async def _list(self) -> None:
        try:
            version, objects = await self._read_all(self._pacing.page_size)
        except Gone:
            version, objects = await self._read_all(page_size=0)
        self._version = version
        self._contact.listed()
        with collector_paused():
            changes = self._store.replace(objects, keep=self._reader.unreadable)
        self._subscribers.notify(changes)
        self._is_synced()

    async def _read_all(self, page_size: int) -> tuple[str, list[K]]:
        version = ""
        objects: list[K] = []
        self._reader.unreadable.clear()
        async with aclosing(self._client.pages(self._scope.path, self._scope.selectors, page_size)) as pages:
            async for page in pages:
                with collector_paused():
                    objects += [
                        obj for raw in page.items or () if (obj := self._reader.object(raw)) is not None
                    ]
                version = page.metadata.resource_version
        return version, objects

    async def _watch(self) -> None:
        seconds = self._rng.randint(self._pacing.watch_min_s, self._pacing.watch_max_s)
        query = {
            **self._scope.selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        path = self._scope.path
        started, before = time.monotonic(), self._contact.events
        read_timeout_s = seconds + self._pacing.watch_slack_s
        async with self._client.stream_lines(path, query, read_timeout_s) as lines:
            async for line in lines:
                self._event(line)
        if self._contact.events == before:
            if time.monotonic() - started < _SHORTEST_WATCH_S:
                raise ApiError("the watch ended at once and without an event", request=f"WATCH {path}")
            self._contact.proven()

    def _event(self, line: bytes) -> None:
        kind, raw = self._reader.event(line)
        self._contact.event_arrived()
        if kind == "BOOKMARK":
            found = identity(raw)
            if found is not None and found.resource_version:
                self._version = found.resource_version
        elif kind in ("ADDED", "MODIFIED", "DELETED"):
            self._object(ChangeKind(kind), raw)
        self._contact.proven()

    def _object(self, kind: ChangeKind, raw: msgspec.Raw) -> None:
        obj = self._reader.object(raw)
        meta = obj.metadata if obj is not None else identity(raw)
        if meta is None:
            return
        if obj is not None or kind is ChangeKind.DELETED:
            self._reader.unreadable.pop(meta.key, None)
        # Advanced before the handlers run: whatever they do, this event is never requested again.
        self._version = meta.resource_version or self._version
        if kind is ChangeKind.DELETED:
            self._subscribers.notify(self._store.remove(meta.key, obj))
        elif obj is not None:
            self._subscribers.notify(self._store.put(obj))

    def _is_synced(self) -> None:
        self.synced.set()
        self._responded.set()

    async def _forbidden(self, error: Forbidden) -> None:
        """Handle a server that denies access. Whether the right was revoked on purpose, removed by mistake,
        or the server cannot tell at the moment, is unknown: known objects are kept. But a namespace that is
        deleted takes the role along, and is known to be gone to whoever may read it by name."""
        self._version = None
        self._contact.forbidden(self._scope.denied(error.message), len(self._store))
        self._responded.set()
        if self._may_be_absent:
            self.synced.set()
        if len(self._store) and await self._is_namespace_gone():
            scope = self._scope
            log.warning("namespace %s is deleted: so are its %s", scope.namespace, scope.resource.plural)
            self._subscribers.notify(self._store.replace([], keep={}))

    async def _is_namespace_gone(self) -> bool:
        """False also if this account may not know."""
        namespace = self._scope.namespace
        if namespace is None:
            return False
        try:
            await self._client.get(api.Namespace, namespace)
        except ApiError as error:
            return isinstance(error, NotFound) and error.reason == "NotFound"
        return False

    def _absent(self, error: NotFound) -> None:
        """Handle a server that does not have the kind.

        A server that has just started also responds so for kinds that it has, so known objects are kept for a
        while.
        """
        if not self._may_be_absent:
            self._contact.failed(error)
            return
        self._version = None
        absent_s = self._contact.absent()
        if not self.synced.is_set() or absent_s >= self._pacing.absent_s:
            self._subscribers.notify(self._store.replace([], keep={}))
            self._is_synced()
