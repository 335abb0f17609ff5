"""Read a container's log for `kubectl logs`: the last lines, since a time, or following it as it grows.

A log has up to 16 MB and half a million lines, and many clients may read it simultaneously: it is read in
pieces, of which each reader holds one, and one at a time.
"""

import asyncio
import functools
import os
import re
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from headgate.node.log_files import LogFile

_POLL_S = 0.1
_PIECE_BYTES = 32 << 10
"""Longer than any line."""
_MIN_LINE_BYTES = 32
"""Its time and its newline."""
_MAX_REST_S = 0.005
_TIME = re.compile(rb"^[^ \n]* ", re.MULTILINE)


@dataclass(frozen=True)
class LogOptions:
    """The relevant query parameters of a log request; None stands for everything."""

    follow: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: str | None = None
    """RFC 3339 time in UTC; earlier lines are skipped. Lines begin with their time: text order works."""
    limit_bytes: int | None = None


class Turns:
    """Serializes the readers of one node: one reads a piece, then all pause for as long as it took. Readers
    of their first piece have priority.
    """

    def __init__(self) -> None:
        self._is_busy = False
        self._waiting: tuple[deque[asyncio.Future[None]], ...] = (deque(), deque())

    async def read(self, piece: Callable[[], bytes], *, is_first: bool = False) -> bytes:
        await self._begin(self._waiting[0 if is_first else 1])
        try:
            began = time.perf_counter()
            data = await asyncio.to_thread(piece)  # the file may not be in memory
            await asyncio.sleep(min(time.perf_counter() - began, _MAX_REST_S))
        finally:
            self._end()
        return data

    async def _begin(self, waiting: "deque[asyncio.Future[None]]") -> None:
        if not self._is_busy:
            self._is_busy = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end()
            raise

    def _end(self) -> None:
        for waiting in self._waiting:
            while waiting:
                turn = waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._is_busy = False


async def read(
    file: LogFile, options: LogOptions, is_live: Callable[[], bool], turns: Turns | None = None
) -> AsyncGenerator[bytes, None]:
    """Pieces of the log; with `follow`, until the run has ended and everything was read."""
    left = options.limit_bytes
    async with aclosing(_pieces(file, options, is_live, turns or Turns())) as pieces:
        async for piece in pieces:
            if left is None:
                yield piece
                continue
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return


async def _pieces(
    file: LogFile, options: LogOptions, is_live: Callable[[], bool], turns: Turns
) -> AsyncGenerator[bytes, None]:
    past = await asyncio.to_thread(_Past.open, file, options)
    if past is None:
        return
    # Everything up to here is in the past; later output is followed.
    with closing(past):
        piece = await turns.read(past.next, is_first=True)
        while piece:
            yield _shown(piece, options)
            piece = await turns.read(past.next) if past.has_more else b""
        handle = past.take_current()
    try:
        while options.follow:
            live = is_live()
            # A writer that rotates leaves our handle on the old file: finish that, then read the new one.
            rotated = _is_rotated(file, handle)
            if _has_more(handle) and (piece := await turns.read(functools.partial(_whole_lines, handle))):
                yield _shown(piece, options)
            elif rotated and (fresh := _open(file.current)) is not None:
                handle.close()
                handle = fresh
            elif not live:
                return
            else:
                await asyncio.sleep(_POLL_S)
    finally:
        handle.close()


class _Part(NamedTuple):
    """The part of one file to read."""

    handle: BinaryIO
    end: int


class _Past:
    """The contents of the two files when opened, as far as requested. Must be closed."""

    def __init__(self, parts: list[_Part], options: LogOptions) -> None:
        self._parts = parts
        self._since = (options.since or "").encode()
        self._at = 0
        """Index of the current part."""
        if (lines := options.tail_lines) is not None and lines * _MIN_LINE_BYTES < sum(e for _, e in parts):
            self._go_to_tail(lines)

    @classmethod
    def open(cls, file: LogFile, options: LogOptions) -> "_Past | None":
        while (current := _open(file.current)) is not None:
            older = _open(file.rotated)
            if not _is_rotated(file, current):
                break
            for handle in (current, older):  # it was rotated just now
                if handle is not None:
                    handle.close()
        else:
            return None
        handles = [handle for handle in (older, current) if handle is not None]
        return cls([_Part(handle, _end_of_lines(handle)) for handle in handles], options)

    def next(self) -> bytes:
        """The next whole lines; empty at the end."""
        while self._at < len(self._parts):
            handle, end = self._parts[self._at]
            piece = _whole_lines(handle, end - handle.tell())
            if not piece:
                self._at += 1
            elif piece := self._wanted(piece):
                return piece
        return b""

    @property
    def has_more(self) -> bool:
        return any(handle.tell() < end for handle, end in self._parts[self._at :])

    def take_current(self) -> BinaryIO:
        """The newer file, which the caller then owns."""
        return self._parts.pop().handle

    def close(self) -> None:
        for handle, _ in self._parts:
            handle.close()

    def _go_to_tail(self, lines: int) -> None:
        """Seek to the beginning of the last lines."""
        for number in reversed(range(len(self._parts))):
            handle, end = self._parts[number]
            begin, lines = _tail(handle, end, lines)
            handle.seek(begin)
            self._at = number
            if not lines:
                return

    def _wanted(self, piece: bytes) -> bytes:
        """Drop lines before the requested time; after the first match, all lines are kept."""
        since, size = self._since, len(self._since)
        if not since:
            return piece
        last = piece.rfind(b"\n", 0, -1) + 1
        if piece[last : last + size] < since:
            return b""
        at = 0
        while piece[at : at + size] < since:
            at = piece.index(b"\n", at) + 1
        self._since = b""
        return piece[at:]


def _tail(handle: BinaryIO, end: int, lines: int) -> tuple[int, int]:
    """The beginning of the last lines of a file, and how many of them are missing in it."""
    at = end
    while at:
        begin = max(0, at - _PIECE_BYTES)
        handle.seek(begin)
        block = handle.read(at - begin)
        count = block.count(b"\n")
        if count > lines:
            place = len(block)
            for _ in range(lines + 1):  # the last of these is the end of the line before
                place = block.rfind(b"\n", 0, place)
            return begin + place + 1, 0
        at, lines = begin, lines - count
    return 0, lines


def _whole_lines(handle: BinaryIO, most: int = _PIECE_BYTES) -> bytes:
    piece = handle.read(min(most, _PIECE_BYTES))
    whole = piece.rfind(b"\n") + 1
    if whole < len(piece):
        handle.seek(whole - len(piece), os.SEEK_CUR)
    return piece[:whole]


def _end_of_lines(handle: BinaryIO) -> int:
    """The end of the last complete line."""
    end = os.fstat(handle.fileno()).st_size
    handle.seek(max(0, end - _PIECE_BYTES))
    block = handle.read(_PIECE_BYTES)
    handle.seek(0)
    return max(0, end - _PIECE_BYTES) + block.rfind(b"\n") + 1


def _shown(piece: bytes, options: LogOptions) -> bytes:
    return piece if options.timestamps else _TIME.sub(b"", piece)


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None


def _has_more(handle: BinaryIO) -> bool:
    return os.fstat(handle.fileno()).st_size > handle.tell()


def _is_rotated(file: LogFile, handle: BinaryIO) -> bool:
    try:
        return os.stat(file.current).st_ino != os.fstat(handle.fileno()).st_ino
    except FileNotFoundError:
        return False
