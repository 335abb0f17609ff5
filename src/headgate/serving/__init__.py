"""Serves ASGI applications inside a process that has other things to do: its loop, its signals, its log.

What clients may take up is bounded: connections, sizes and times, see `Limits`.
"""

from headgate.serving.protocol import MAX_PIPELINED, BoundedProtocol, Limits, Reason, State
from headgate.serving.server import (
    BACKLOG,
    Application,
    EmbeddedServer,
    Listener,
    Use,
    configuration,
    drop_stalled,
    listening_socket,
    serve_page,
    without_address,
)

__all__ = [
    "BACKLOG",
    "MAX_PIPELINED",
    "Application",
    "BoundedProtocol",
    "EmbeddedServer",
    "Limits",
    "Listener",
    "Reason",
    "State",
    "Use",
    "configuration",
    "drop_stalled",
    "listening_socket",
    "serve_page",
    "without_address",
]
