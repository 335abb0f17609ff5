"""A local copy of one kind that follows the server: list, diff, watch, and again after whatever went wrong.

Written here because no asynchronous client tells its user what was deleted while its watch was away and its
resource version expired. The contract: handlers hear of each object ADDED, then MODIFIED any number of times,
then DELETED; and the copy equals the server's state once the two have talked.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic

import msgspec

from headgate import api
from headgate.cluster.client import PAGE_SIZE, Client
from headgate.cluster.errors import ApiError, Forbidden, Gone, NotFound, Status
from headgate.cluster.outage import Backoff
from headgate.cluster.store import Change, ChangeKind, Handler, K, Store
from headgate.garbage import collector_paused

log = logging.getLogger(__name__)

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
# A stream that ends sooner without a word counts as a failure, or a broken server would be asked in a loop.
_SHORTEST_WATCH_S = 1.0


@dataclass(frozen=True)
class Pacing:
    """The waits of an informer; tests shorten them."""

    backoff: Backoff = field(default_factory=Backoff)
    watch_min_s: int = 300
    watch_max_s: int = 600
    watch_slack_s: float = 15.0
    page_size: int = PAGE_SIZE
    absent_s: float = 60.0
    """How long a kind that was there must be absent until its objects count as gone."""


@dataclass(frozen=True)
class InformerStatistics:
    objects: int
    synced: bool
    events: int
    relists: int
    restarts: int
    handler_failures: int
    unreadable: dict[str, str]
    """Objects that don't decode into their kind, with the error; the copy keeps the last state that did."""
    last_contact_age_s: float | None
    """Seconds since the last list or event, bookmarks included."""
    last_error: str | None


class _Identity(msgspec.Struct, frozen=True):
    """What is read of an object that doesn't decode into its kind."""

    metadata: api.ObjectMeta


class _WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_watch_event = msgspec.json.Decoder(_WatchEvent)


class Informer(Generic[K]):
    """Follows one kind, of one namespace or all, narrowed by selectors.

    `run()` works until it is cancelled and survives everything that a server or network does. Handlers are
    called synchronously, in order, when an event arrives: they must be quick, e.g. add a key to a queue.
    """

    def __init__(
        self,
        client: Client,
        kind: type[K],
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        pacing: Pacing | None = None,
        rng: random.Random | None = None,
        may_be_absent: bool = False,
    ) -> None:
        """`may_be_absent`: where the server does not have the kind, as its definition is not installed, or it
        may not be read, there are no objects of it, until that changes."""
        self._client = client
        self._kind = kind
        self._decoder = msgspec.json.Decoder(kind)
        self._path = kind.resource.path(namespace)
        self._selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
        self._pacing = pacing or Pacing()
        self._rng = rng or random.Random()  # noqa: S311 - jitter
        self._store: Store[K] = Store()
        self._handlers: list[Handler[K]] = []
        self._unreadable: dict[api.ObjectKey, str] = {}
        self._version: str | None = None
        self._failures = self._expired = 0
        self._may_be_absent = may_be_absent
        self._absent_since: float | None = None
        self._events = self._relists = self._restarts = self._handler_failures = 0
        self._begun_at = 0.0
        self._last_contact: float | None = None
        self._last_error: str | None = None
        self.synced = asyncio.Event()

    # Reading

    def get(self, namespace: str, name: str) -> K | None:
        """The object as last heard of; `namespace` is "" for cluster-scoped kinds."""
        return self._store.get(api.ObjectKey(namespace, name))

    def items(self) -> Sequence[K]:
        """All objects, in no particular order."""
        return tuple(self._store.values())

    def subscribe(self, handler: Handler[K]) -> Callable[[], None]:
        """Call `handler` with every change, starting with an ADDED of each object already known.

        Returns a function that ends it. An exception of a handler is logged and counted, and stops nothing.
        """
        for obj in self.items():
            self._call(handler, Change(ChangeKind.ADDED, None, obj))
        self._handlers.append(handler)
        return lambda: self._handlers.remove(handler)

    async def wait_synced(self, timeout_s: float | None = None) -> None:
        """Until the first list is in the copy and handlers have seen it; TimeoutError after `timeout_s`."""
        async with asyncio.timeout(timeout_s):
            await self.synced.wait()

    def statistics(self) -> InformerStatistics:
        age = None if self._last_contact is None else time.monotonic() - self._last_contact
        return InformerStatistics(
            objects=len(self._store),
            synced=self.synced.is_set(),
            events=self._events,
            relists=self._relists,
            restarts=self._restarts,
            handler_failures=self._handler_failures,
            unreadable={str(key): error for key, error in self._unreadable.items()},
            last_contact_age_s=age,
            last_error=self._last_error,
        )

    # Following the server

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            self._begun_at = time.monotonic()
            try:
                if self._version is None:
                    await self._list()
                await self._watch()
            except Gone as error:
                self._version = None
                self._failed(error)
                self._expired += 1
                if self._expired == 1:
                    continue  # it has merely aged; if it always expires, we must not list in a loop
            except (NotFound, Forbidden) as error:
                self._absent(error)
            except ApiError as error:
                self._failed(error)
            else:
                continue
            await asyncio.sleep(self._pacing.backoff.delay_s(self._failures, self._rng))

    async def _list(self) -> None:
        try:
            version, objects = await self._read_all(self._pacing.page_size)
        except Gone:
            version, objects = await self._read_all(page_size=0)
        self._relists += 1
        self._version = version
        self._absent_since = None
        self._heard()
        with collector_paused():
            changes = self._store.replace(objects, keep=self._unreadable)
        self._tell(changes)
        self.synced.set()

    async def _read_all(self, page_size: int) -> tuple[str, list[K]]:
        version = ""
        objects: list[K] = []
        self._unreadable.clear()
        async with aclosing(self._client.pages(self._path, self._selectors, page_size)) as pages:
            async for page in pages:
                with collector_paused():
                    objects += [obj for raw in page.items or () if (obj := self._decode(raw)) is not None]
                version = page.metadata.resource_version
        return version, objects

    async def _watch(self) -> None:
        seconds = self._rng.randint(self._pacing.watch_min_s, self._pacing.watch_max_s)
        query = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(seconds),
        }
        started, before = time.monotonic(), self._events
        read_timeout_s = seconds + self._pacing.watch_slack_s
        async with self._client.stream_lines(self._path, query, read_timeout_s) as lines:
            async for line in lines:
                self._event(line)
        if self._events == before:
            if time.monotonic() - started < _SHORTEST_WATCH_S:
                raise ApiError("the watch ended at once and without an event", request=f"WATCH {self._path}")
            self._proven()

    def _event(self, line: bytes) -> None:
        try:
            event = _watch_event.decode(line)
        except _UNREADABLE as error:
            raise ApiError(f"not a watch event: {error}", request=f"WATCH {self._path}") from error
        if event.type == "ERROR":
            raise self._error(event.object)
        self._heard()
        self._events += 1
        if event.type == "BOOKMARK":
            self._bookmark(event.object)
        elif event.type in ("ADDED", "MODIFIED", "DELETED"):
            self._object(ChangeKind(event.type), event.object)
        self._proven()

    def _object(self, kind: ChangeKind, raw: msgspec.Raw) -> None:
        obj = self._decode(raw)
        if obj is not None:
            key, version = obj.metadata.key, obj.metadata.resource_version
            self._unreadable.pop(key, None)
        else:
            identity = _identity(raw)
            if identity is None:
                return
            key, version = identity.key, identity.resource_version
        # Advanced before the handlers run: whatever they do, this event is never asked for again.
        self._version = version or self._version
        if kind is ChangeKind.DELETED:
            self._unreadable.pop(key, None)
            self._tell(self._store.remove(key, obj))
        elif obj is not None:
            self._tell(self._store.put(obj))

    def _bookmark(self, raw: msgspec.Raw) -> None:
        identity = _identity(raw)
        if identity is not None and identity.resource_version:
            self._version = identity.resource_version

    def _decode(self, raw: msgspec.Raw) -> K | None:
        """The object, or None after reporting why it is none of this kind."""
        try:
            return self._decoder.decode(raw)
        except _UNREADABLE as error:
            identity = _identity(raw)
            key = identity.key if identity else api.ObjectKey("", "(without metadata)")
            self._unreadable[key] = str(error)
            log.warning("%s %s is left out: %s", self._kind.resource.kind, key, error)
            return None

    def _error(self, raw: msgspec.Raw) -> ApiError:
        try:
            status = msgspec.json.decode(raw, type=Status)
        except _UNREADABLE:
            status = Status(message="the server ended the watch with an error that is no Status")
        return ApiError.from_status(status, request=f"WATCH {self._path}")

    # Telling and remembering

    def _tell(self, changes: Sequence[Change[K]]) -> None:
        for change in changes:
            for handler in tuple(self._handlers):
                self._call(handler, change)

    def _call(self, handler: Handler[K], change: Change[K]) -> None:
        try:
            handler(change)
        except Exception:
            self._handler_failures += 1
            key = change.object.metadata.key
            log.exception("a handler failed on %s of %s %s", change.kind, self._kind.resource.kind, key)

    def _heard(self) -> None:
        self._last_contact = now = time.monotonic()
        self._client.outage.heard(now)

    def _proven(self) -> None:
        """The watch works: the next failure is a first one."""
        self._failures = self._expired = 0

    def _absent(self, error: NotFound | Forbidden) -> None:
        """The server has no such kind, or tells us nothing of it.

        One that has just started says so too of kinds that it has: what was known is kept for a while.
        """
        if not self._may_be_absent:
            self._failed(error)
            return
        self._failures += 1
        self._version = None
        now = time.monotonic()
        self._client.outage.heard(now)
        if self._absent_since is None:
            self._absent_since = now
            why = "may not be read" if isinstance(error, Forbidden) else "is not served"
            log.warning("%s %s: it is looked for now and then", self._path, why)
        if not self.synced.is_set() or now - self._absent_since >= self._pacing.absent_s:
            self._tell(self._store.replace([], keep={}))
            self.synced.set()

    def _failed(self, error: ApiError) -> None:
        self._failures += 1
        self._restarts += 1
        self._last_error = str(error)
        is_outage = self._client.outage.failed(error, self._begun_at, time.monotonic())
        log.log(logging.DEBUG if is_outage else logging.INFO, "following %s: %s", self._path, error)


def _identity(raw: msgspec.Raw) -> api.ObjectMeta | None:
    try:
        return msgspec.json.decode(raw, type=_Identity).metadata
    except _UNREADABLE:
        return None
