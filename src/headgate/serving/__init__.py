"""Serves ASGI applications inside a process that has its own event loop, signals and logs.

`Limits` bounds what clients can use: connections, sizes and times.
"""

from headgate.serving.guard import Closed, Guarded, by_token_file, first_credential
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
    "Closed",
    "EmbeddedServer",
    "Guarded",
    "Limits",
    "Listener",
    "Reason",
    "State",
    "Use",
    "by_token_file",
    "configuration",
    "drop_stalled",
    "first_credential",
    "listening_socket",
    "serve_page",
    "without_address",
]
