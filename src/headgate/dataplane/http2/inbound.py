"""Received data that waits for the connection's next turn."""

from __future__ import annotations

import asyncio


class Inbound:
    """The unread data of one connection, and whether its socket is read: not while data is unread, or while
    the user has paused reading."""

    __slots__ = ("lost", "unread", "user_pauses")

    def __init__(self) -> None:
        self.unread = b""
        self.lost: tuple[Exception | None] | None = None
        """How the connection ended, while data is still unread."""
        self.user_pauses = False

    def keep(self, data: bytes, socket: asyncio.Transport | None) -> None:
        """Keep data for the next turn. Until then, no more is read."""
        self.unread = data
        _pause(socket)

    def take(self) -> bytes:
        """Remove and return the unread data."""
        data, self.unread = self.unread, b""
        return data

    def drop(self) -> None:
        """Drop the unread data: the connection ends."""
        self.unread = b""

    def pause(self, socket: asyncio.Transport | None) -> None:
        """Pause reading for the user."""
        self.user_pauses = True
        _pause(socket)

    def resume(self, socket: asyncio.Transport | None) -> None:
        """Resume reading for the user."""
        self.user_pauses = False
        self.read_on(socket)

    def read_on(self, socket: asyncio.Transport | None) -> None:
        """Read the socket again, if nothing is against it."""
        if not self.unread and not self.user_pauses and socket is not None and not socket.is_closing():
            socket.resume_reading()


def _pause(socket: asyncio.Transport | None) -> None:
    if socket is not None and not socket.is_closing():
        socket.pause_reading()
