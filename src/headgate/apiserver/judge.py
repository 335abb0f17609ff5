"""Validates objects by schemas from users, in a process with limited time and memory.

A CEL rule, or nested alternatives, can take unbounded time and memory, and neither can be stopped within a
process. So anything not known to be cheap runs in a helper process with limits on CPU time and memory. If the
helper exceeds them, the write is rejected, naming the rule that was being evaluated.

The event loop never waits for the helper, because every request would wait with it. A write that needs an
answer raises UnansweredError before it has changed anything; `handlers.writing` gets the answers and repeats
the write from the beginning. An answer is valid only for the exact object, previous object and schema of its
question: if another write intervened, the question is a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import logging
import mmap
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from headgate import helper_process
from headgate.apiserver import errors
from headgate.apiserver.builtin import DEFINITION
from headgate.apiserver.registry import Served
from headgate.kubeschema import structural
from headgate.kubeschema.structural import NO_FIELD, FieldError, Schema

__all__ = ["CPU_S", "MEMORY_BYTES", "Answers", "Judge", "Question", "UnansweredError"]

log = logging.getLogger(__name__)

Object = dict[str, Any]

CPU_S: Final = 1.0
"""CPU time limit for one object, or for the schema of one version of a definition."""
WALL_S: Final = 10.0
"""Wall time limit, for machines so busy that the helper does not get its CPU time."""
START_S: Final = 60.0
MEMORY_BYTES: Final = 1 << 30
"""Address space limit, including the helper's Python."""
REST_FACTOR: Final = 9.0
"""After a validation was aborted, objects with its schema are rejected for this many times its duration, so
that it takes at most a tenth of a core.
"""
MAX_RESTING: Final = 1000
NOTE_BYTES: Final = 4096
SHOWN_CHARACTERS: Final = 200
"""Length of a rule in messages."""
COMMAND: Final = (sys.executable, "-P", "-m", "headgate.judge_worker")

_ENDING: Final = "the server is ending, and judges no more objects"
_ADVICE: Final = (
    "make it cheaper: bound the lists, maps and texts that it goes through by maxItems, maxProperties and "
    "maxLength, and nest fewer loops and alternatives"
)


_MADE_BY_THE_SERVER: Final = ("uid", "creationTimestamp", "generation", "resourceVersion", "managedFields")
"""Metadata that may differ each time a write is repeated. Kubernetes shows it to no schema or rule."""


@functools.lru_cache(64)
def _faults_of_own(encoded_schema: bytes, field: str) -> list[FieldError]:
    """Cached: a schema with Pod templates takes a tenth of a second, at each start of a server."""
    return structural.check(msgspec.json.decode(encoded_schema), field)


def _digest(schema: Schema) -> bytes:
    return hashlib.sha256(msgspec.json.encode(schema, order="sorted")).digest()


@dataclass(frozen=True)
class Question:
    """A question for the helper, as of the time it was asked."""

    what: str
    field: str
    digest: bytes
    """Digest of the schema."""
    schema: Schema | None
    """The schema of a kind, which the helper may already have; None if the task includes it."""
    task: bytes
    key: bytes
    """Equal for questions with the same answer."""


Answers = Mapping[bytes, list[FieldError]]
"""Errors found, by the key of the question."""


class UnansweredError(Exception):
    """A write needs the answers to these questions first."""

    def __init__(self, questions: list[Question]) -> None:
        super().__init__(f"{len(questions)} questions have no answer yet")
        self.questions = questions


def _judged(obj: Object) -> Object:
    """The part of an object that schemas can validate."""
    meta = {name: value for name, value in obj["metadata"].items() if name not in _MADE_BY_THE_SERVER}
    return obj | {"metadata": meta}


class _CutOffError(Exception):
    """The helper did not answer: it exceeded its time or memory limit."""


class Judge:
    """Manages the helper process, which is started on first use and again after it died."""

    def __init__(
        self,
        trusted: Iterable[Object] = (),
        cpu_s: float = CPU_S,
        memory_bytes: int = MEMORY_BYTES,
        clock: Callable[[], float] = time.monotonic,
        *,
        waits: bool = True,
    ) -> None:
        """`trusted` are the server's own definitions, whose schemas are known to be cheap.

        `waits`: whether to wait for the helper outside an event loop; otherwise UnansweredError is raised
        there too.
        """
        versions = [version for definition in trusted for version in definition["spec"]["versions"]]
        self._trusted = frozenset(_digest(version["schema"]["openAPIV3Schema"]) for version in versions)
        self._cpu_s = cpu_s
        self._memory_bytes = memory_bytes
        self._clock = clock
        self._waits = waits
        self._helper: _Helper | None = None
        self._cheap: dict[int, tuple[Schema, bytes | None]] = {}
        self._resting: dict[bytes, float] = {}
        """By schema digest: until when its objects are rejected."""
        self._judged = self._cut_off = 0
        self._answers: Answers = {}
        self._thread = ThreadPoolExecutor(1, "judge")
        """The only thread that uses the helper."""
        self._is_closed = False

    def may_ask(self, served: Served) -> bool:
        """Whether objects of this kind, or what they define, may need the helper."""
        return served.resource == DEFINITION or self.costly(served) is not None

    @contextlib.contextmanager
    def knowing(self, answers: Answers) -> Iterator[None]:
        """Provide these answers to `validate` and `check` within this context, which must not await."""
        self._answers = answers
        try:
            yield
        finally:
            self._answers = {}

    async def answer(self, question: Question) -> list[FieldError]:
        """Ask the helper without blocking the event loop; 503 when the server ends."""
        if self._is_closed:
            raise errors.unavailable(_ENDING)
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._ask, question)

    def validate(self, served: Served, obj: Object, old: Object | None) -> list[FieldError]:
        """All errors of a pruned and defaulted object; `old` is the object before an update.

        Raises UnansweredError in an event loop. Without one, it waits for the helper, as does `check`.
        """
        digest = self.costly(served)
        if digest is None:
            return served.prepared.validate(obj, old)
        task = msgspec.json.encode({"obj": _judged(obj), "old": old and _judged(old)})
        return self._found(
            Question(
                f"judging this {served.kind} by the schema of its definition",
                NO_FIELD,
                digest,
                served.schema,
                task,
                hashlib.sha256(digest + task).digest(),
            )
        )

    def trusts(self, definition: Mapping[str, Any]) -> bool:
        """Whether all schemas of a definition are Headgate's own."""
        schemas = (version["schema"]["openAPIV3Schema"] for version in definition["spec"]["versions"])
        return all(_digest(schema) in self._trusted for schema in schemas)

    def check(self, schema: Schema, field: str) -> list[FieldError]:
        """All errors of a definition's schema; `field` is its path."""
        digest = _digest(schema)
        if digest in self._trusted:
            return list(_faults_of_own(msgspec.json.encode(schema), field))
        task = msgspec.json.encode({"schema": schema, "field": field})
        key = hashlib.sha256(digest + field.encode()).digest()
        return self._found(Question("checking this schema", field, digest, None, task, key))

    def costly(self, served: Served) -> bytes | None:
        """The digest of a kind's schema, unless it is known to be cheap."""
        if not served.custom:
            return None
        known = self._cheap.get(id(served.schema))
        if known is None or known[0] is not served.schema:
            digest = _digest(served.schema)
            is_cheap = digest in self._trusted or structural.is_plain(served.schema)
            if len(self._cheap) >= MAX_RESTING:
                self._cheap.clear()
            known = self._cheap[id(served.schema)] = (served.schema, None if is_cheap else digest)
        return known[1]

    def _found(self, question: Question) -> list[FieldError]:
        known = self._answers.get(question.key)
        if known is None:
            known = self._refusal(question)
        if known is not None:
            return list(known)
        if self._waits:
            try:
                asyncio.get_running_loop()
            except RuntimeError:
                return self._thread.submit(self._ask, question).result()
        raise UnansweredError([question])

    def _refusal(self, question: Question) -> list[FieldError] | None:
        """The error for a schema during its pause after an abort."""
        now = self._clock()
        if (until := self._resting.get(question.digest, 0.0)) <= now:
            return None
        told = f"{question.what} took too long, which is tried again in {until - now:.0f} s"
        return [FieldError("FieldValueForbidden", question.field, f"{told}; {_ADVICE}")]

    def _ask(self, question: Question) -> list[FieldError]:
        """Runs in the thread."""
        if self._is_closed:
            raise errors.unavailable(_ENDING)
        if (refused := self._refusal(question)) is not None:
            return refused
        what, field, digest = question.what, question.field, question.digest
        self._judged += 1
        helper = self._helper or self._start()
        try:
            return helper.ask(question)
        except _CutOffError:
            self._cut_off += 1
            note, end = helper.note(), helper.end()
            self._helper = None
            if self._is_closed:
                raise errors.unavailable(_ENDING) from None
            with contextlib.suppress(OSError):  # start the next one while nobody waits for it
                self._start()
            if len(self._resting) >= MAX_RESTING:
                self._resting.clear()
            self._resting[digest] = self._clock() + REST_FACTOR * self._cpu_s
            noted, _, rule = note.partition("\n")
            at = f", the last of it for the rule {rule[:SHOWN_CHARACTERS]!r}" if rule else ""
            told = f"{what} {end}{at}; {_ADVICE}"
            log.warning("%s: %s", noted or field, told)
            return [FieldError("FieldValueForbidden", noted or field, told)]

    def _start(self) -> _Helper:
        self._helper = helper = _Helper(self._cpu_s, self._memory_bytes)
        if self._is_closed:  # `close` may have run too early to see it
            helper.stop()
        return helper

    def close(self) -> None:
        """End the helper; a write being validated gets 503."""
        self._is_closed = True
        if (helper := self._helper) is not None:
            helper.stop()
        self._thread.shutdown()
        if self._helper is not None:
            self._helper.kill()
            self._helper = None

    def statistics(self) -> dict[str, int]:
        return {"judged_in_helper": self._judged, "cut_off": self._cut_off, "resting": len(self._resting)}


class _Helper:
    """One helper process."""

    def __init__(self, cpu_s: float, memory_bytes: int) -> None:
        self._cpu_s = cpu_s
        self._memory_bytes = memory_bytes
        self._knows = b""
        """Digest of the schema of the last object that it was given."""
        descriptor = os.memfd_create("headgate-judge")
        os.ftruncate(descriptor, NOTE_BYTES)
        self._note = mmap.mmap(descriptor, NOTE_BYTES)
        limits = (str(cpu_s), str(memory_bytes))
        try:
            self._process, self._sock = helper_process.start(COMMAND, [descriptor], limits)
        finally:
            os.close(descriptor)
        self.kill = weakref.finalize(self, _kill, self._process, self._sock, self._note)
        self._is_ready = False

    def stop(self) -> None:
        """Kill the process, while another thread waits for its answer."""
        self._process.kill()

    def ask(self, question: Question) -> list[FieldError]:
        """Ask a question. Raises _CutOffError, after which the helper is unusable."""
        self._wait_ready()
        deadline = time.monotonic() + WALL_S
        raw = question.task
        if question.schema is None:
            self._knows = b""
        elif question.digest != self._knows:
            raw = b'{"schema":' + msgspec.json.encode(question.schema) + b"," + raw[1:]
            self._knows = question.digest
        self._note[:2] = b"\0\0"
        try:
            self._sock.settimeout(WALL_S)
            self._sock.sendall(len(raw).to_bytes(helper_process.LENGTH_BYTES) + raw)
            length = int.from_bytes(self._receive(helper_process.LENGTH_BYTES, deadline))
            answer = self._receive(length, deadline)
        except OSError as error:
            raise _CutOffError from error
        return helper_process.unpacked(msgspec.json.decode(answer, type=list[helper_process.PackedError]))

    def _wait_ready(self) -> None:
        if not self._is_ready:
            self._sock.settimeout(START_S)
            try:
                self._is_ready = bool(self._sock.recv(1))
            except OSError as error:
                raise _CutOffError from error

    def _receive(self, length: int, deadline: float) -> bytes:
        received = bytearray()
        while len(received) < length:
            self._sock.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = self._sock.recv(min(length - len(received), 1 << 20))
            if not piece:
                raise ConnectionError("the helper has ended")
            received += piece
        return bytes(received)

    def note(self) -> str:
        """Its last note: the field and the rule that it was about to evaluate."""
        length = int.from_bytes(self._note[:2])
        return bytes(self._note[2 : 2 + length]).decode(errors="replace")

    def end(self) -> str:
        """Make sure that it has ended, and return why it did not answer."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0.2)  # it may be about to end by itself, with a meaningful status
        self.kill()
        status = self._process.returncode
        if -status == signal.SIGKILL:
            return f"took more than {WALL_S:g} s"
        limit = helper_process.exceeded(status, self._cpu_s, self._memory_bytes)
        return limit or f"failed: the helper ended with code {status}, and the log says why"


def _kill(process: subprocess.Popen[bytes], sock: socket.socket, note: mmap.mmap) -> None:
    process.kill()
    process.wait()
    sock.close()
    note.close()
