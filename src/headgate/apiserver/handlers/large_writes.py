"""Large writes, computed in a helper process so that the event loop is not blocked.

The cost of a write grows with its body and with the object that it changes: decoding, merging, pruning,
validation and field ownership take a second of CPU time for an object at the size limit. So another process
(`large_write_worker`) computes such a write with the same code. It has no store: it requests what it reads,
and returns the objects to write as bytes, which the event loop copies.

A write is stored only if everything it read is unchanged; otherwise it is computed again. The process
computes one write at a time, with limits on CPU time and memory, and ends when it has been idle for a while.
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
from typing import Any, Final

import msgspec

from headgate import helper_process
from headgate.api import ObjectKey
from headgate.api.admission import IndexKey
from headgate.apiserver import builtin, errors
from headgate.apiserver.handlers import large_write_messages as messages
from headgate.apiserver.handlers.changes import Change
from headgate.apiserver.judge import Answers
from headgate.apiserver.objects import MAX_OBJECT_BYTES, Objects
from headgate.apiserver.storage import Draft, Key, Stored
from headgate.apiserver.targets import Target

__all__ = ["CPU_S", "Computed", "LargeWrites"]

CPU_S: Final = 20.0
"""CPU time limit of one write."""
WALL_S: Final = 60.0
"""Wall time limit, for machines so busy that the helper does not get its CPU time."""
START_S: Final = 60.0
MEMORY_BYTES: Final = 1 << 30
"""Address space limit, including the helper's Python."""
END_S: Final = 5.0
"""From the closing of its socket to the end of the helper."""
IDLE_S: Final = 60.0
"""The helper ends after this long without work, to free its memory."""
_PIECE_BYTES: Final = 1 << 20
COMMAND: Final = (sys.executable, "-P", "-m", "headgate.apiserver.handlers.large_write_worker")
_DECODER: Final = msgspec.msgpack.Decoder(messages.Sent)
_ENDING: Final = "the server is ending, and takes no more writes"


@dataclass(frozen=True)
class Computed:
    """A computed write, and what it read."""

    made: messages.Made
    placeholder: str
    seen: Mapping[Key, int | None]
    """The revisions of the objects that it depends on; None for objects that did not exist."""
    generation: int | None
    """Generation of the registry, if it depends on that."""


class _Broken(Exception):  # noqa: N818 - says what the helper is, not what went wrong
    """The helper has ended or does not respond."""


class LargeWrites:
    """Manages the helper process, which is started on first use and again after it ended."""

    def __init__(
        self,
        objects: Objects,
        trusted: Sequence[dict[str, Any]] = (),
        cpu_s: float = CPU_S,
        memory_bytes: int = MEMORY_BYTES,
        rejected: Counter[str] | None = None,
    ) -> None:
        """`trusted` are definitions whose schemas are known to be cheap; `rejected` counts aborted writes."""
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
    ) -> Computed | messages.Unanswered:
        """Compute a write without storing anything. Callers must call it one at a time.

        Raises the StatusError of a rejected write; 413 for one that takes too much time or memory.
        """
        if self._is_closed:
            raise errors.unavailable(_ENDING)
        if self._idle is not None:
            self._idle.cancel()
        self._computed += 1
        helper, is_over = self._started(), False
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
        if isinstance(result, messages.Refused):
            raise result.error()
        return result

    def store(self, computed: Computed) -> bytes | None:
        """Store a computed write and return its response; None if something that it read has changed.

        Does not await, so that nothing can change between the check and the write.
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
            store.flush()  # as in Objects.settle
        if made.shown is None:
            assert first, "a write that shows what is stored stores something"
            return first.body
        return made.shown if first is None else Draft.of(made.shown, placeholder).stamped(first.revision)

    def close(self) -> None:
        """End the helper; a write being computed gets 503."""
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

    def _started(self) -> _Helper:
        if self._helper is None:
            objects = self._objects
            limits = (self._cpu_s, self._memory_bytes, objects.max_objects, objects.max_bytes)
            self._helper = _Helper(messages.Setup(msgspec.json.encode(self._trusted), *limits))
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
    ) -> Computed | messages.Unanswered | messages.Refused:
        """Send the task, and answer the helper's questions until it is done."""
        definition = self._definition(target)
        task = self._task(helper, target, change, definition, answers, made_name)
        await helper.send(task)
        seen: dict[Key, int | None] = {definition.key: definition.revision} if definition else {}
        generation: int | None = None
        while True:
            match message := await helper.receive():
                case messages.Made():
                    return Computed(message, task.placeholder, seen, generation)
                case messages.Unanswered() | messages.Refused():
                    return message
                case messages.GetConflict():
                    generation = self._objects.registry.generation
            found = self._found(target, message)
            if isinstance(message, messages.GetObject) and isinstance(found, messages.FoundObject):
                seen[message.key] = found.revision
            await helper.send(found)

    def _definition(self, target: Target) -> Stored | None:
        """The definition of the kind; None for Kubernetes' own kinds."""
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
    ) -> messages.Task:
        store, served = self._objects.store, target.served
        return messages.Task(
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
            answers={key: helper_process.packed(found) for key, found in answers.items()},
            objects=len(store),
            object_bytes=store.bytes,
            events=store.count_of(builtin.EVENT),
        )

    def _found(self, target: Target, asked: messages.Ask) -> msgspec.Struct:
        others = self._objects.store_view
        match asked:
            case messages.GetObject(key):
                return _found_object(self._objects.store.get(key))
            case messages.GetNeighbour(group, kind, namespace, name):
                return _found_object(others.stored(group, kind, ObjectKey(namespace, name)))
            case messages.GetKind(group, kind):
                return messages.FoundKind(others.serves(group, kind))
            case messages.GetEntries(about, value):
                return messages.FoundEntries(list(others.filed(IndexKey(about, value))))
            case messages.GetAddress(name, spec):
                service = {"spec": spec}
                try:
                    self._objects.addresses.assign(replace(target, name=name), service)
                except errors.StatusError as error:
                    return messages.Refused.of(error)
                return messages.FoundAddress(service["spec"])
            case messages.GetConflict(group, plural, kind):
                definition = {"spec": {"group": group, "names": {"plural": plural, "kind": kind}}}
                return messages.FoundConflict(self._objects.registry.name_conflict(definition))


def _found_object(stored: Stored | None) -> messages.FoundObject:
    return (
        messages.FoundObject(None) if stored is None else messages.FoundObject(stored.revision, stored.body)
    )


class _Helper:
    """One helper process."""

    def __init__(self, setup: messages.Setup) -> None:
        self._setup: messages.Setup | None = setup
        self._cpu_s, self._memory_bytes = setup.cpu_s, setup.memory_bytes
        self._knows: dict[Key, int] = {}
        """Revisions of the definitions that the helper has."""
        self._process, self._sock = helper_process.start(COMMAND)
        self._sock.setblocking(False)
        self.end = weakref.finalize(self, _end, self._process, self._sock)

    def news_of(self, definition: Stored) -> bytes | None:
        """A definition, if the helper does not have it yet."""
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
            await asyncio.get_running_loop().sock_sendall(
                self._sock, len(raw).to_bytes(helper_process.LENGTH_BYTES) + raw
            )
        except OSError as error:
            raise _Broken from error

    async def receive(self) -> messages.Sent:
        length = int.from_bytes(await self._read(helper_process.LENGTH_BYTES))
        message: messages.Sent = _DECODER.decode(await self._read(length))
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
        """Wait for the process to end, and return the reason."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self._process.wait, END_S)
        self.end()
        status = self._process.returncode
        if (limit := helper_process.exceeded(status, self._cpu_s, self._memory_bytes)) is not None:
            return f"this write {limit}"
        return f"the helper process ended with code {status}, and the log says why"


def _end(process: subprocess.Popen[bytes], sock: socket.socket) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)
    process.wait()
    sock.close()
