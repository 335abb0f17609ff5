"""Reading a container's log as `kubectl logs` asks for it: the last lines, since when, and on as it grows."""

import asyncio
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import BinaryIO

from headgate.node.log_files import LogFile

_POLL_S = 0.1
_CHUNK_BYTES = 64 << 10


@dataclass(frozen=True)
class LogOptions:
    """The query of a log request that matters here; None stands for everything."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: str | None = None
    """RFC 3339 time in UTC; lines before it are left out. Lines begin with theirs, so text sorts by time."""
    limit_bytes: int | None = None


async def read(
    file: LogFile, options: LogOptions, is_live: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    """Chunks of the log; with `follow` until the run has ended and everything was read."""
    left = options.limit_bytes
    async with aclosing(_chunks(file, options, is_live)) as chunks:
        async for chunk in chunks:
            if left is None:
                yield chunk
                continue
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return


async def _chunks(
    file: LogFile, options: LogOptions, is_live: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    live = is_live()
    handle = await asyncio.to_thread(_open, file)
    if handle is None:
        return
    try:
        # Everything up to here is the past; what comes later is followed.
        end = os.fstat(handle.fileno()).st_size
        for chunk in await asyncio.to_thread(_past, file, handle, end, options):
            yield chunk
        handle.seek(end)
        while options.follow and live:
            live = is_live()
            # A writer that rotates leaves our handle on the old file: read that to its end, then the new one.
            rotated = _is_rotated(file, handle)
            lines = _whole_lines(handle)
            if lines:
                yield b"".join(_shown(line, options) for line in lines)
            if rotated and (fresh := _open(file)) is not None:
                handle.close()
                handle, live = fresh, True
            elif live and not lines:
                await asyncio.sleep(_POLL_S)
    finally:
        handle.close()


def _whole_lines(handle: BinaryIO) -> list[bytes]:
    lines = list(handle)
    if lines and not lines[-1].endswith(b"\n"):
        handle.seek(-len(lines.pop()), os.SEEK_CUR)
    return lines


def _past(file: LogFile, handle: BinaryIO, end: int, options: LogOptions) -> list[bytes]:
    lines = _wanted(_lines(file, handle, end), options.since)
    if options.tail_lines is not None:
        lines = iter(deque(lines, maxlen=options.tail_lines))
    chunks: list[bytes] = []
    held: list[bytes] = []
    size = 0
    for line in lines:
        held.append(_shown(line, options))
        size += len(line)
        if size > _CHUNK_BYTES:
            chunks.append(b"".join(held))
            held, size = [], 0
    return [*chunks, b"".join(held)] if held else chunks


def _lines(file: LogFile, handle: BinaryIO, end: int) -> Iterator[bytes]:
    if file.rotated.exists():
        with file.rotated.open("rb") as older:
            yield from older
    handle.seek(0)
    while handle.tell() < end and (line := handle.readline()):
        yield line


def _wanted(lines: Iterator[bytes], since: str | None) -> Iterator[bytes]:
    if since is None:
        return lines
    start = since.encode()
    return (line for line in lines if line[: len(start)] >= start)


def _shown(line: bytes, options: LogOptions) -> bytes:
    return line if options.timestamps else line.partition(b" ")[2]


def _open(file: LogFile) -> BinaryIO | None:
    try:
        return file.current.open("rb")
    except FileNotFoundError:
        return None


def _is_rotated(file: LogFile, handle: BinaryIO) -> bool:
    try:
        return os.stat(file.current).st_ino != os.fstat(handle.fileno()).st_ino
    except FileNotFoundError:
        return False
