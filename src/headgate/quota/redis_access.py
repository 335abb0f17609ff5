"""Credentials and TLS for a Redis server, and advice for connection errors."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import msgspec
import redis.exceptions
from redis.exceptions import AuthenticationError, InvalidResponse, ResponseError

from headgate import http_clients
from headgate.quota.transport import Refused, Unreachable

MAX_TOLD = 1000
"""Characters of a server's error for the log: it may have 64 KB."""


class RedisAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's settings, and the credentials of its environment."""

    username: str | None = None
    password: str | None = None
    is_anonymous: bool = False
    """Whether the settings do not name the host, so that it gets no credentials."""
    tls: bool = False
    ca_file: str | None = None
    """The only CA certificates that are trusted; None for those of the system."""

    def context(self) -> ssl.SSLContext:
        """A TLS context, created per connection, as files change. Reading the system's CA certificates takes
        a tenth of a second, too long for an event loop. Raises Unreachable if the file is invalid."""
        try:
            return http_clients.verifying(ssl.create_default_context(cafile=self.ca_file))
        except ssl.SSLError as error:
            raise Unreachable(
                f"rate_limits.redis_ca_file {self.ca_file} has no certificate in PEM: {error}"
            ) from error
        except OSError as error:
            raise Unreachable(
                f"rate_limits.redis_ca_file {self.ca_file} cannot be read: {error.strerror}"
            ) from error


def explained(error: Exception, access: RedisAccess, is_known: bool) -> Refused:
    """The error with advice. `is_known`: whether the server has ever responded."""
    text = (str(error) or type(error).__name__).rstrip(".")[:MAX_TOLD]
    kind = _kind(error, text)
    advice = _advice(kind, access, is_known)
    return Refused.with_public(
        f"{text}; {advice}" if advice else text, f"{kind}; {advice}" if advice else kind
    )


REFUSED = "the connection is refused"
LATE = "it does not answer in time"
CLOSED = "it closes the connection"
NO_REDIS = "it does not answer as Redis does"
NO_TLS = "TLS fails"
UNAUTHENTICATED = "it asks for another user or password"
OTHER_NAME = "its certificate names another host"
NOT_BELIEVED = "its certificate is not trusted"

_OF_REDIS = frozenset(
    {"BUSY", "CLUSTERDOWN", "ERR", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "OOM", "READONLY"}
)
_OF_REDIS |= {"NOPERM", "NOREPLICAS", "WRONGTYPE"}
"""First words of Redis errors."""


def _kind(error: Exception, text: str) -> str:
    """The kind of an error: one of a fixed set of sentences, so that a server cannot inject text by its
    error."""
    if isinstance(error, AuthenticationError) or "unauthenticated" in text or "NOAUTH" in text:
        return UNAUTHENTICATED
    if isinstance(error, ResponseError):
        word = text.partition(" ")[0]
        return f"it answers with the error {word}" if word in _OF_REDIS else "it answers with an error"
    causes = list(_causes(error))
    if any(isinstance(each, ssl.SSLError) for each in causes):
        if "mismatch" in text and "certificate" in text:
            return OTHER_NAME
        return NOT_BELIEVED if "certificate verify failed" in text else NO_TLS
    for kinds, told in _KINDS:
        if any(isinstance(each, kinds) for each in causes):
            return told
    return "it cannot be reached"


_KINDS: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
    ((ConnectionRefusedError,), REFUSED),
    ((socket.gaierror,), "its name cannot be resolved"),
    ((TimeoutError, redis.exceptions.TimeoutError), LATE),
    ((InvalidResponse,), NO_REDIS),
    ((EOFError, ConnectionResetError, BrokenPipeError, RuntimeError), CLOSED),
    ((redis.exceptions.ConnectionError,), CLOSED),
    ((ValueError,), NO_REDIS),
)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(8):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _advice(kind: str, access: RedisAccess, is_known: bool) -> str:
    if kind == UNAUTHENTICATED:
        if access.is_anonymous:
            return (
                "the gateway sends its password to the hosts in its setting rate_limits.redis_hosts "
                "only: name this host there, and start the gateway again"
            )
        return "the gateway takes user and password from $REDIS_USERNAME and $REDIS_PASSWORD"
    if kind == OTHER_NAME:
        return "its certificate has to name the host that the route does"
    if kind == NOT_BELIEVED:
        return "rate_limits.redis_ca_file names the file of the authorities that are believed"
    if not is_known and access.tls and kind in (LATE, CLOSED, NO_REDIS, NO_TLS):
        return "rate_limits.redis_tls is set: does it speak TLS there?"
    if not is_known and not access.tls and kind in (CLOSED, NO_REDIS):
        return "if it speaks TLS, set rate_limits.redis_tls"
    return ""
