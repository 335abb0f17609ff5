"""Helper processes with limits on CPU time and memory: starting them, their limits, and why they ended.

A helper takes one message at a time from a socket, and ends with the process that started it.
"""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from headgate.kubeschema.structural import OMITTED, FieldError

OUT_OF_MEMORY: Final = 3
"""The exit code after a MemoryError."""
LENGTH_BYTES: Final = 8

PackedError: TypeAlias = tuple[str, str, str, list[Any]]
"""Reason, field, detail, and the value in a list, which is empty if there is none."""


def start(
    command: Sequence[str],
    descriptors: Sequence[int] = (),
    arguments: Sequence[str] = (),
    *,
    kind: socket.SocketKind = socket.SOCK_STREAM,
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The process and this end of its socket. Its arguments are the descriptor numbers of its socket and of
    `descriptors`, then `arguments`."""
    ours, theirs = socket.socketpair(type=kind)
    passed = (theirs.fileno(), *descriptors)
    try:
        process = subprocess.Popen(  # noqa: S603 - our own program
            (*command, *map(str, passed), *arguments),
            pass_fds=passed,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    finally:
        theirs.close()
    return process, ours


def limit_memory(memory_bytes: int) -> None:
    """Called by the helper: allocations beyond the limit raise MemoryError."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def exceeded(status: int, cpu_s: float, memory_bytes: int) -> str | None:
    """The limit that a helper has exceeded, by its exit status; None if none. SIGPROF ends its CPU time."""
    if -status == signal.SIGPROF:
        return f"took more than {cpu_s:g} s of CPU time"
    if status == OUT_OF_MEMORY or status < 0:  # engines abort the process if there is no memory
        return f"took more than {memory_bytes >> 20} MB of memory"
    return None


def framed(message: bytes) -> bytes:
    """A message prefixed with its length."""
    return len(message).to_bytes(LENGTH_BYTES) + message


def packed(found: Sequence[FieldError]) -> list[PackedError]:
    return [(e.reason, e.field, e.detail, [] if e.value is OMITTED else [e.value]) for e in found]


def unpacked(found: Sequence[PackedError]) -> list[FieldError]:
    return [FieldError(reason, field, detail, *value) for reason, field, detail, value in found]
