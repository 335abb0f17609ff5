"""HTTP/2 of clients, presented to the rest of the gateway as HTTP/1.1 connections.

Each stream is a request on a *lane*: the transport of a connection as the listener or a Gateway's port makes
it. So streams have the same limits, checks, timeouts and records as HTTP/1.1.
"""

from headgate.gateway.http2.server import Http2Server

__all__ = ["Http2Server"]
