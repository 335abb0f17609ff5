"""The helper process of `apiserver.judge`: `python -m headgate.judge_worker SOCKET NOTE CPU_S MEMORY_BYTES`.

It ends with the server, and SIGPROF kills it when one task exceeds its CPU time. It is not in the package of
the API server, so that it starts without importing that.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import sys
from typing import Any

import msgspec

from headgate import helper_process
from headgate.kubeschema import structural
from headgate.kubeschema.structural import rules
from headgate.kubeschema.structural.errors import Path, keyed


class _Task(msgspec.Struct):
    schema: dict[str, Any] | None = None
    """None for the schema of the task before."""
    obj: dict[str, Any] | None = None
    old: dict[str, Any] | None = None
    field: str = ""


def main() -> None:
    """Process tasks until the server is gone."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    cpu_s, memory_bytes = float(sys.argv[3]), int(sys.argv[4])
    note = mmap.mmap(int(sys.argv[2]), 0)
    os.close(int(sys.argv[2]))
    rules.announce = _noting(note)
    helper_process.limit_memory(memory_bytes)
    prepared = structural.Prepared({})
    sock.sendall(b"\1")
    with sock, sock.makefile("rb") as tasks:
        while length := tasks.read(helper_process.LENGTH_BYTES):
            raw = tasks.read(int.from_bytes(length))
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            task = msgspec.json.decode(raw, type=_Task)
            if task.obj is None:
                found = structural.check(task.schema or {}, task.field)
            else:
                if task.schema is not None:
                    prepared = structural.Prepared(task.schema)
                found = prepared.validate(task.obj, task.old)
            answer = msgspec.json.encode(helper_process.packed(found))
            signal.setitimer(signal.ITIMER_PROF, 0)
            sock.sendall(len(answer).to_bytes(helper_process.LENGTH_BYTES) + answer)


def _noting(note: mmap.mmap) -> rules.Announce:
    def announce(path: Path, rule: str) -> None:
        told = f"{keyed(path)}\n{rule}".encode()[: len(note) - 2]
        note[: 2 + len(told)] = len(told).to_bytes(2) + told

    return announce


if __name__ == "__main__":
    try:
        main()
    except MemoryError:
        os._exit(helper_process.OUT_OF_MEMORY)
