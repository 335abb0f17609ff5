"""Writes of large objects, in a helper process, so that the event loop goes on meanwhile.

What a write costs goes by the size of its body and of the object that it changes: decoding, merging,
pruning, judging and noting who owns which field take a second of CPU time for an object at the limit. So such
a write is computed in another process (`large_write_worker`), by the same code. The process has no store: it
asks for what it wants to read, and hands back what is to be written as bytes, which the event loop copies.

A write is stored only if everything that it read is still as it was; else it is computed again. The process
computes one write at a time, with a limit on CPU time and memory, and ends after a while without work.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import msgspec

from headgate.api import ObjectKey
from headgate.api.admission import Entry, Filed
from headgate.api.structural import OMITTED, FieldError
from headgate.apiserver import builtin, errors, service_addresses
from headgate.apiserver.handlers.changes import Change
from headgate.apiserver.judge import Answers
from headgate.apiserver.objects import MAX_OBJECT_BYTES, Objects
from headgate.apiserver.storage import Draft, Key, Stored
from headgate.apiserver.targets import Target

__all__ = [
    "CPU_S",
    "LENGTH_BYTES",
    "OUT_OF_MEMORY",
    "Ask",
    "Asked",
    "Computed",
    "FoundAddress",
    "FoundConflict",
    "FoundEntries",
    "FoundKind",
    "FoundObject",
    "GetAddress",
    "GetConflict",
    "GetEntries",
    "GetKind",
    "GetNeighbour",
    "GetObject",
    "LargeWrites",
    "Made",
    "Refused",
    "Setup",
    "Task",
    "Unanswered",
    "Written",
    "packed_errors",
    "unpacked_errors",
]

CPU_S: Final = 20.0
"""Of CPU time, for one write."""
WALL_S: Final = 60.0
"""On a machine that is so busy that the helper does not get its CPU time."""
START_S: Final = 60.0
MEMORY_BYTES: Final = 1 << 30
"""Of address space, the Python of the helper included."""
END_S: Final = 5.0
"""From the end of its socket to that of the helper."""
IDLE_S: Final = 60.0
"""After which the helper ends, and gives its memory back."""
OUT_OF_MEMORY: Final = 3
"""The exit code then."""
LENGTH_BYTES: Final = 8
_PIECE_BYTES: Final = 1 << 20
COMMAND: Final = (sys.executable, "-P", "-m", "headgate.apiserver.handlers.large_write_worker")
_ENDING: Final = "the server is ending, and takes no more writes"

FoundError: TypeAlias = tuple[str, str, str, list[Any]]
"""Reason, field, detail, and the value in a list, which is empty if there is none."""


# -- what the server sends


class Setup(msgspec.Struct, frozen=True):
    """What does not change from write to write."""

    trusted: bytes
    """JSON of the definitions whose schemas are known to be cheap."""
    cpu_s: float
    memory_bytes: int
    max_objects: int
    max_bytes: int


class Task(msgspec.Struct, frozen=True):
    """A write to compute."""

    change: Change
    group: str
    version: str
    plural: str
    namespace: str
    name: str
    subresource: str
    definition: bytes | None
    """Of the kind, if the helper has not got it yet."""
    placeholder: str
    made_name: str
    """The name that was made of generateName when this write was computed before."""
    answers: dict[bytes, list[FoundError]]
    """Of the judge."""
    objects: int
    object_bytes: int
    events: int


class FoundObject(msgspec.Struct, frozen=True, tag=True):
    revision: int | None
    body: bytes = b""


class FoundKind(msgspec.Struct, frozen=True, tag=True):
    is_served: bool


class FoundEntries(msgspec.Struct, frozen=True, tag=True):
    filed: list[Filed]


class FoundAddress(msgspec.Struct, frozen=True, tag=True):
    spec: dict[str, Any]


class FoundConflict(msgspec.Struct, frozen=True, tag=True):
    why: str | None


# -- what the helper sends


class GetObject(msgspec.Struct, frozen=True, tag=True):
    """An object that the write depends on."""

    key: Key


class GetNeighbour(msgspec.Struct, frozen=True, tag=True):
    """An object that admission looks at; the write may be stored if it changes meanwhile."""

    group: str
    kind: str
    namespace: str
    name: str


class GetKind(msgspec.Struct, frozen=True, tag=True):
    group: str
    kind: str


class GetEntries(msgspec.Struct, frozen=True, tag=True):
    about: str
    value: tuple[str, ...]


class GetAddress(msgspec.Struct, frozen=True, tag=True):
    """The address of a Service of this name, with the fields that it goes by."""

    name: str
    spec: dict[str, Any]


class GetConflict(msgspec.Struct, frozen=True, tag=True):
    """Why a definition cannot have its names."""

    group: str
    plural: str
    kind: str


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A StatusError, in either direction."""

    code: int
    reason: str
    message: str
    name: str
    group: str
    kind: str
    causes: list[errors.Cause]
    retry_after_s: int

    @classmethod
    def of(cls, error: errors.StatusError) -> Refused:
        causes = list(error.causes[: errors.MAX_CAUSES])
        texts = (error.reason, error.message, error.name, error.group, error.kind)
        return cls(error.code, *texts, causes, error.retry_after_s)

    def error(self) -> errors.StatusError:
        return errors.StatusError(**{name: getattr(self, name) for name in self.__struct_fields__})


class Asked(msgspec.Struct, frozen=True):
    """A question for the judge, without the schema if it is that of the kind."""

    what: str
    field: str
    digest: bytes
    is_of_kind: bool
    task: bytes
    key: bytes


class Unanswered(msgspec.Struct, frozen=True, tag=True):
    """The write needs answers of the judge first."""

    questions: list[Asked]
    made_name: str


class Written(msgspec.Struct, frozen=True):
    """One object that is to be stored, or to be deleted with this as its last state."""

    key: Key
    body: bytes
    deletes: bool
    for_deletion: bool


class Made(msgspec.Struct, frozen=True, tag=True):
    """What is to be stored, and what the write answers."""

    writes: list[Written]
    shown: bytes | None
    """None if it is the first object that is written, as it is stored."""
    warnings: list[str]
    created: bool


Ask: TypeAlias = GetObject | GetNeighbour | GetKind | GetEntries | GetAddress | GetConflict
_Sent: TypeAlias = Ask | Refused | Unanswered | Made
_DECODER = msgspec.msgpack.Decoder(_Sent)


def packed_errors(found: Sequence[FieldError]) -> list[FoundError]:
    return [(e.reason, e.field, e.detail, [] if e.value is OMITTED else [e.value]) for e in found]


def unpacked_errors(found: Sequence[FoundError]) -> list[FieldError]:
    return [FieldError(reason, field, detail, *value) for reason, field, detail, value in found]


# -- the server's side


@dataclass(frozen=True)
class Computed:
    """What a write comes to, and what it has read."""

    made: Made
    placeholder: str
    seen: Mapping[Key, int | None]
    """The revisions of what it depends on; None for what was not there."""
    generation: int | None
    """Of the registry, if it depends on that."""


class _Broken(Exception):  # noqa: N818 - says what the helper is, not what went wrong
    """The helper has ended, or does not answer."""


class LargeWrites:
    """Owner of the helper process, which is started when it is first needed and again after it ended."""

    def __init__(
        self,
        objects: Objects,
        trusted: Sequence[dict[str, Any]] = (),
        cpu_s: float = CPU_S,
        memory_bytes: int = MEMORY_BYTES,
        rejected: Counter[str] | None = None,
    ) -> None:
        """`trusted` are definitions whose schemas are known to be cheap; `rejected` counts writes cut off."""
        self._rejected = Counter() if rejected is None else rejected
        self._objects = objects
        self._trusted = trusted
        self._cpu_s = cpu_s
        self._memory_bytes = memory_bytes
        self._helper: _Helper | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._computed = self._cut_off = 0
        self._is_closed = False

    async def compute(
        self, target: Target, change: Change, answers: Answers, made_name: str
    ) -> Computed | Unanswered:
        """Computes a write, of which nothing is stored yet. One at a time: whoever calls sees to that.

        Raises the StatusError of a write that is refused; 413 for one that takes too much time or memory.
        """
        if self._is_closed:
            raise errors.unavailable(_ENDING)
        if self._idle is not None:
            self._idle.cancel()
        self._computed += 1
        helper, is_over = await self._started(), False
        try:
            async with asyncio.timeout(WALL_S):
                result = await self._converse(helper, target, change, answers, made_name)
                is_over = True
        except TimeoutError:
            raise self._cut(f"this write took more than {WALL_S:g} s") from None
        except _Broken:
            raise self._cut(await helper.why()) from None
        finally:
            if not is_over:
                self._drop(helper)
        self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._drop, helper)
        if isinstance(result, Refused):
            raise result.error()
        return result

    def store(self, computed: Computed) -> bytes | None:
        """Stores a computed write and gives what it answers; None if something that it read has changed.

        Does not await, so that nothing can come between the look and the write.
        """
        store, registry = self._objects.store, self._objects.registry
        if computed.generation not in (None, registry.generation):
            return None
        for key, seen in computed.seen.items():
            present = store.get(key)
            if (present.revision if present else None) != seen:
                return None
        first: Stored | None = None
        made, placeholder = computed.made, computed.placeholder
        for write in made.writes:
            draft = Draft.of(write.body, placeholder)
            if write.deletes:
                stored = store.delete(write.key, draft)
            else:
                stored = store.put(write.key, draft, MAX_OBJECT_BYTES, for_deletion=write.for_deletion)
            first = first or stored
        if any(write.key.resource == builtin.DEFINITION for write in made.writes):
            store.flush()  # as Objects.settle does
        if made.shown is None:
            assert first, "a write that shows what is stored stores something"
            return first.body
        return made.shown if first is None else Draft.of(made.shown, placeholder).stamped(first.revision)

    def close(self) -> None:
        """Ends the helper; a write that is being computed gets 503."""
        self._is_closed = True
        if self._idle is not None:
            self._idle.cancel()
        self._drop(self._helper)

    def statistics(self) -> dict[str, int]:
        return {
            "computed": self._computed,
            "cut_off": self._cut_off,
            "running": int(self._helper is not None),
        }

    async def _started(self) -> _Helper:
        if self._helper is None:
            objects = self._objects
            limits = (self._cpu_s, self._memory_bytes, objects.max_objects, objects.max_bytes)
            self._helper = _Helper(Setup(msgspec.json.encode(self._trusted), *limits))
        return self._helper

    def _drop(self, helper: _Helper | None) -> None:
        if helper is not None:
            helper.end()
        if self._helper is helper:
            self._helper = None

    def _cut(self, why: str) -> errors.StatusError:
        if self._is_closed:
            return errors.unavailable(_ENDING)
        self._cut_off += 1
        self._rejected["large_writes"] += 1
        told = f"Request entity too large: {why}; send a smaller object"
        return errors.StatusError(413, "RequestEntityTooLarge", told)

    async def _converse(
        self, helper: _Helper, target: Target, change: Change, answers: Answers, made_name: str
    ) -> Computed | Unanswered | Refused:
        """Sends the task, and answers what the helper asks until it has done it."""
        definition = self._definition(target)
        task = self._task(helper, target, change, definition, answers, made_name)
        await helper.send(task)
        seen: dict[Key, int | None] = {definition.key: definition.revision} if definition else {}
        generation: int | None = None
        while True:
            match message := await helper.receive():
                case Made():
                    return Computed(message, task.placeholder, seen, generation)
                case Unanswered() | Refused():
                    return message
                case GetConflict():
                    generation = self._objects.registry.generation
            found = self._found(target, message)
            if isinstance(message, GetObject) and isinstance(found, FoundObject):
                seen[message.key] = found.revision
            await helper.send(found)

    def _definition(self, target: Target) -> Stored | None:
        """That of the kind; None for Kubernetes' own kinds."""
        if not target.served.custom:
            return None
        found = self._objects.store.get(Key(builtin.DEFINITION, "", target.served.resource))
        if found is None:
            raise errors.no_such_path()
        return found

    def _task(
        self,
        helper: _Helper,
        target: Target,
        change: Change,
        definition: Stored | None,
        answers: Answers,
        made_name: str,
    ) -> Task:
        store, served = self._objects.store, target.served
        return Task(
            change=change,
            group=served.group,
            version=served.version,
            plural=served.plural,
            namespace=target.namespace,
            name=target.name,
            subresource=target.subresource,
            definition=helper.news_of(definition) if definition else None,
            placeholder=secrets.token_hex(16),
            made_name=made_name,
            answers={key: packed_errors(found) for key, found in answers.items()},
            objects=len(store),
            object_bytes=store.bytes,
            events=store.count_of(builtin.EVENT),
        )

    def _found(self, target: Target, asked: Ask) -> msgspec.Struct:
        others = self._objects.neighbours
        match asked:
            case GetObject(key):
                return _found_object(self._objects.store.get(key))
            case GetNeighbour(group, kind, namespace, name):
                return _found_object(others.stored(group, kind, ObjectKey(namespace, name)))
            case GetKind(group, kind):
                return FoundKind(others.serves(group, kind))
            case GetEntries(about, value):
                return FoundEntries(list(others.filed(Entry(about, value))))
            case GetAddress(name, spec):
                service = {"spec": {n: v for n, v in spec.items() if n in service_addresses.ASKED}}
                try:
                    self._objects.addresses.assign(replace(target, name=name), service)
                except errors.StatusError as error:
                    return Refused.of(error)
                return FoundAddress(service["spec"])
            case GetConflict(group, plural, kind):
                definition = {"spec": {"group": group, "names": {"plural": plural, "kind": kind}}}
                return FoundConflict(self._objects.registry.name_conflict(definition))


def _found_object(stored: Stored | None) -> FoundObject:
    return FoundObject(None) if stored is None else FoundObject(stored.revision, stored.body)


class _Helper:
    """One helper process."""

    def __init__(self, setup: Setup) -> None:
        self._setup: Setup | None = setup
        self._cpu_s, self._memory_bytes = setup.cpu_s, setup.memory_bytes
        self._knows: dict[Key, int] = {}
        """Definitions that it has, and their revisions."""
        self._sock, theirs = socket.socketpair()
        self._sock.setblocking(False)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                (*COMMAND, str(theirs.fileno())),
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        finally:
            theirs.close()
        self.end = weakref.finalize(self, _end, self._process, self._sock)

    def news_of(self, definition: Stored) -> bytes | None:
        """A definition that it has not got yet."""
        if self._knows.get(definition.key) == definition.revision:
            return None
        self._knows[definition.key] = definition.revision
        return definition.body

    async def send(self, message: msgspec.Struct) -> None:
        if (setup := self._setup) is not None:
            self._setup = None
            await self.send(setup)
        raw = msgspec.msgpack.encode(message)
        try:
            await asyncio.get_running_loop().sock_sendall(self._sock, len(raw).to_bytes(LENGTH_BYTES) + raw)
        except OSError as error:
            raise _Broken from error

    async def receive(self) -> _Sent:
        length = int.from_bytes(await self._read(LENGTH_BYTES))
        message: _Sent = _DECODER.decode(await self._read(length))
        return message

    async def _read(self, length: int) -> bytearray:
        loop = asyncio.get_running_loop()
        received = bytearray()
        while len(received) < length:
            try:
                piece = await loop.sock_recv(self._sock, min(length - len(received), _PIECE_BYTES))
            except OSError as error:
                raise _Broken from error
            if not piece:
                raise _Broken
            received += piece
        return received

    async def why(self) -> str:
        """Says why it has ended, which it is about to do."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, END_S)
        self.end()
        status = self._process.returncode
        if -status == signal.SIGPROF:
            return f"this write took more than {self._cpu_s:g} s of CPU time"
        if status == OUT_OF_MEMORY or status < 0:
            return f"this write took more than {self._memory_bytes >> 20} MB of memory"
        return f"the helper process ended with code {status}, and the log says why"


def _end(process: subprocess.Popen[bytes], sock: socket.socket) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    sock.close()
