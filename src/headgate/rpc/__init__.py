"""gRPC over HTTP/2 on asyncio, for servers and clients that move bytes and decide elsewhere.

A service is given a `ServerCall` for each call and returns a `CallHandler`, which hears of messages as bytes;
encoding them is its own matter. Everything that a peer sends is bounded by `Limits`.
"""

from headgate.http2 import tls
from headgate.rpc import health, status
from headgate.rpc.calls import CallHandler, ServerCall, Services
from headgate.rpc.client import Client, ClientCall, Receiver, connect
from headgate.rpc.errors import CallError
from headgate.rpc.limits import Limits
from headgate.rpc.server import Server
from headgate.rpc.status import Status
from headgate.rpc.unary import unary

__all__ = [
    "CallError",
    "CallHandler",
    "Client",
    "ClientCall",
    "Limits",
    "Receiver",
    "Server",
    "ServerCall",
    "Services",
    "Status",
    "connect",
    "health",
    "status",
    "tls",
    "unary",
]
