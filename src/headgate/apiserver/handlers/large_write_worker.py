"""The helper process of `large_writes`: `python -m headgate.apiserver.handlers.large_write_worker SOCKET`.

Computes writes with the same code as the server, but with a store that requests each object from the server,
and that keeps written objects instead of storing them. Ends when the server does, and dies of SIGPROF when
one write exceeds its CPU time.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any, BinaryIO, TypeVar, cast

import msgspec

from headgate import api, helper_process
from headgate.api import ObjectKey, admission
from headgate.apiserver import builtin, errors, service_addresses
from headgate.apiserver.handlers import changes
from headgate.apiserver.handlers import large_write_messages as messages
from headgate.apiserver.handlers.changes import Change
from headgate.apiserver.judge import Judge, Question, UnansweredError
from headgate.apiserver.objects import Objects, Outcome
from headgate.apiserver.registry import Registry
from headgate.apiserver.storage import Key, Store, Stored
from headgate.apiserver.targets import Target

Object = dict[str, Any]
T = TypeVar("T", bound=msgspec.Struct)

_UNKNOWN_REVISION = 0
"""For objects that are not stored yet."""
_SETUP = msgspec.msgpack.Decoder(messages.Setup)
_TASK = msgspec.msgpack.Decoder(messages.Task)
_FOUND = msgspec.msgpack.Decoder(messages.Found)


class Server:
    """The server's end of the socket. Answers are cached for the duration of one write."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._incoming: BinaryIO = sock.makefile("rb")
        self._known: dict[messages.Ask, Any] = {}

    def receive(self) -> bytes:
        """The next message; empty when the server has ended."""
        length = self._incoming.read(helper_process.LENGTH_BYTES)
        return self._incoming.read(int.from_bytes(length)) if length else b""

    def send(self, message: msgspec.Struct) -> None:
        raw = msgspec.msgpack.encode(message)
        self._sock.sendall(len(raw).to_bytes(helper_process.LENGTH_BYTES) + raw)

    def ask(self, question: messages.Ask, type_: type[T]) -> T:
        """Send a question; raises the StatusError that the server answers with."""
        self.send(question)
        found = _FOUND.decode(self.receive())
        if isinstance(found, messages.Refused):
            raise found.error()
        assert isinstance(found, type_)
        return found

    def look(self, question: messages.GetObject | messages.GetNeighbour) -> messages.FoundObject:
        """Like `ask`, with a cache until `forget`."""
        if (found := self._known.get(question)) is None:
            found = self._known[question] = self.ask(question, messages.FoundObject)
        return cast(messages.FoundObject, found)

    def forget(self) -> None:
        self._known.clear()


class RemoteStore:
    """The part of a Store that `Objects` needs for a write."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._own: dict[Key, Stored | None] = {}
        self._task: messages.Task | None = None
        self.writes: list[messages.Written] = []

    def begin(self, task: messages.Task) -> None:
        self._server.forget()
        self._own, self._task, self.writes = {}, task, []

    def __len__(self) -> int:
        assert self._task
        return self._task.objects

    def count_of(self, resource: str) -> int:
        assert self._task
        assert resource == builtin.EVENT
        return self._task.events

    def get(self, key: Key) -> Stored | None:
        if key in self._own:
            return self._own[key]
        found = self._server.look(messages.GetObject(key))
        return None if found.revision is None else Stored(key, found.revision, found.body)

    def put(
        self, key: Key, obj: Object, max_bytes: int | None = None, *, for_deletion: bool = False
    ) -> Stored:
        body = self._encoded(obj)
        if max_bytes is not None and len(body) > max_bytes:
            raise errors.too_large(max_bytes)
        self.writes.append(messages.Written(key, body, deletes=False, for_deletion=for_deletion))
        stored = self._own[key] = Stored(key, _UNKNOWN_REVISION, body)
        return stored

    def delete(self, key: Key, last: Object) -> Stored:
        body = self._encoded(last)
        self.writes.append(messages.Written(key, body, deletes=True, for_deletion=True))
        self._own[key] = None
        return Stored(key, _UNKNOWN_REVISION, body)

    def flush(self) -> None:
        """The server does that."""

    def _encoded(self, obj: Object) -> bytes:
        assert self._task
        obj["metadata"]["resourceVersion"] = self._task.placeholder
        return msgspec.json.encode(obj)

    @property
    def bytes(self) -> int:
        assert self._task
        return self._task.object_bytes


class RemoteView:
    """The other objects, for admission."""

    among = ""

    def __init__(self, server: Server) -> None:
        self._server = server

    def get(self, group: str, kind: str, key: ObjectKey) -> Object | None:
        found = self._server.look(messages.GetNeighbour(group, kind, key.namespace, key.name))
        return None if found.revision is None else msgspec.json.decode(found.body)

    def serves(self, group: str, kind: str) -> bool:
        return self._server.ask(messages.GetKind(group, kind), messages.FoundKind).is_served

    def filed(self, entry: admission.IndexKey) -> Sequence[admission.Filed]:
        return self._server.ask(messages.GetEntries(*entry), messages.FoundEntries).filed


class RemoteAddresses:
    """The addresses of Services."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def assign(self, target: Target, service: Object) -> None:
        asked = {name: service["spec"][name] for name in service_addresses.ASKED if name in service["spec"]}
        found = self._server.ask(messages.GetAddress(target.name, asked), messages.FoundAddress)
        service["spec"] |= found.spec


class Kinds(Registry):
    """The kinds of earlier writes. Only the server knows which names are taken."""

    def __init__(self, server: Server) -> None:
        super().__init__(api.builtin_definitions())
        self._server = server

    def name_conflict(self, definition: Object) -> str | None:
        names = definition["spec"]["names"]
        question = messages.GetConflict(definition["spec"]["group"], names["plural"], names["kind"])
        return self._server.ask(question, messages.FoundConflict).why


class Worker:
    """Computes one write after the other."""

    def __init__(self, server: Server, setup: messages.Setup) -> None:
        self._server = server
        self._store = RemoteStore(server)
        self._kinds = Kinds(server)
        self._judge = Judge(msgspec.json.decode(setup.trusted), waits=False)
        self._objects = Objects(
            cast(Store, self._store),  # the part of it that a write needs
            self._kinds,
            max_objects=setup.max_objects,
            max_bytes=setup.max_bytes,
            judge=self._judge,
            others=RemoteView(server),
            addresses=RemoteAddresses(server),
        )
        self._decoded: tuple[Change, bytes, list[str]] | None = None
        """The last body as JSON: a write may be repeated, and YAML takes seconds."""

    def do(self, task: messages.Task) -> messages.Made | messages.Unanswered | messages.Refused:
        self._store.begin(task)
        if task.definition is not None:
            self._kinds.register(msgspec.json.decode(task.definition), len(task.definition))
        named = ""
        try:
            served = self._kinds.find(task.group, task.version, task.plural)
            if served is None:
                raise errors.no_such_path()
            target = Target(served, task.namespace, task.name, task.subresource)
            value, complaints = self._value(task.change)
            if task.made_name:
                value["metadata"] = (value.get("metadata") or {}) | {"name": task.made_name}
            answers = {key: helper_process.unpacked(found) for key, found in task.answers.items()}
            try:
                with self._judge.knowing(answers):
                    outcome = changes.write(self._objects, target, task.change, value, complaints)
            except UnansweredError as error:
                if not task.name:
                    named = value["metadata"].get("name") or ""
                return messages.Unanswered([_asked(question) for question in error.questions], named)
            return self._made(target, outcome)
        except MemoryError:
            raise
        except Exception as error:
            status = errors.status_of(error)
            if status is not error and status.code >= 500:
                traceback.print_exc()
            return messages.Refused.of(status)

    def _value(self, change: Change) -> tuple[Any, list[str]]:
        if self._decoded is None or self._decoded[0] != change:
            value, complaints = changes.decode(change)
            self._decoded = (change, msgspec.json.encode(value), complaints)
        _, body, complaints = self._decoded
        return msgspec.json.decode(body), list(complaints)

    def _made(self, target: Target, outcome: Outcome) -> messages.Made:
        is_stored_so = outcome.body is not None and bool(self._store.writes)
        shown = None if is_stored_so else msgspec.json.encode(outcome.obj)
        return messages.Made(self._store.writes, shown, outcome.warnings, outcome.created)


def _asked(question: Question) -> messages.Asked:
    is_of_kind = question.schema is not None
    return messages.Asked(
        question.what, question.field, question.digest, is_of_kind, question.task, question.key
    )


def main() -> None:
    """Compute writes until the server has ended."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    server = Server(sock)
    setup = _SETUP.decode(server.receive())
    helper_process.limit_memory(setup.memory_bytes)
    worker = Worker(server, setup)
    gc.collect()
    gc.freeze()
    gc.disable()  # during one write, after which little is left
    while raw := server.receive():
        signal.setitimer(signal.ITIMER_PROF, setup.cpu_s)
        result = worker.do(_TASK.decode(raw))
        signal.setitimer(signal.ITIMER_PROF, 0)
        server.send(result)
        del raw, result
        gc.collect()


if __name__ == "__main__":
    try:
        main()
    except MemoryError:
        os._exit(helper_process.OUT_OF_MEMORY)
    except (BrokenPipeError, ConnectionResetError):  # the server has ended
        os._exit(0)
