"""Ports for the processes that a benchmark starts."""

from __future__ import annotations

import socket

_held: list[socket.socket] = []


def held_port(host: str = "127.0.0.1") -> int:
    """A port that nothing else is given until this process ends.

    A port that was merely free a moment ago may be given to any other process before the own server listens.
    A socket that is bound but does not listen keeps it. A server can listen beside it, since both set
    SO_REUSEADDR, as servers do.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((host, 0))
    _held.append(held)
    port: int = held.getsockname()[1]
    return port
