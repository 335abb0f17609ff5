"""How one gets into a Redis server, and what to look at where one does not."""

from __future__ import annotations

import ssl

import msgspec
from redis.exceptions import AuthenticationError

from headgate import http_clients
from headgate.gateway.limiting.transport import Unreachable


class RedisAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's settings, and the credentials of its environment."""

    username: str | None = None
    password: str | None = None
    is_anonymous: bool = False
    """Whether the settings do not name the host, so that it gets no credentials."""
    tls: bool = False
    ca_file: str | None = None
    """Whose certificates are believed, and no others; without it, those that the system believes."""

    def context(self) -> ssl.SSLContext:
        """For TLS, anew for each connection, as files change. The system's authorities take a tenth of a
        second to read, for which no event loop has time. Raises Unreachable if the file is of no use."""
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


def explained(error: Exception, access: RedisAccess, is_known: bool) -> str:
    """What went wrong, and what to look at. `is_known` is whether the server has ever answered."""
    text = str(error) or type(error).__name__
    advice = _advice(error, text, access, is_known)
    return f"{text.rstrip('.')}; {advice}" if advice else text


def _advice(error: Exception, text: str, access: RedisAccess, is_known: bool) -> str:
    if isinstance(error, AuthenticationError) or "unauthenticated" in text:
        if access.is_anonymous:
            return (
                "the gateway sends its password to the hosts in its setting rate_limits.redis_hosts "
                "only: name this host there, and start the gateway again"
            )
        return "the gateway takes user and password from $REDIS_USERNAME and $REDIS_PASSWORD"
    if "mismatch" in text and "certificate" in text:
        return "its certificate has to name the host that the route does"
    if "certificate verify failed" in text:
        return "rate_limits.redis_ca_file names the file of the authorities that are believed"
    if is_known:
        return ""
    return (
        "rate_limits.redis_tls is set: does it speak TLS there?"
        if access.tls
        else "if it speaks TLS, set rate_limits.redis_tls"
    )
