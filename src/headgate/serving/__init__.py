"""Serves ASGI applications inside a process that has its own event loop, signals and logs.

`Limits` bounds what clients can use: connections, sizes and times.
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
