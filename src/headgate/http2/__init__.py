"""HTTP/2 connections on asyncio, both sides, for users that know what their streams carry.

It is given a socket and the `Limits` of what a peer may use; each stream has a `User`, which hears of its
headers, its content as bytes, and its end.
"""

from headgate.http2.connection import Connection
from headgate.http2.errors import Http2Error
from headgate.http2.hpack import Header, Headers
from headgate.http2.limits import Holdings, Limits
from headgate.http2.stream import Stream, User
from headgate.http2.streams import Http2

__all__ = [
    "Connection",
    "Header",
    "Headers",
    "Holdings",
    "Http2",
    "Http2Error",
    "Limits",
    "Stream",
    "User",
]
