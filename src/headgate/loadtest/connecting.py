"""How to reach a server: address, key, headers and certificates, as values for other processes."""

from __future__ import annotations

import re
import ssl

import msgspec

from headgate.http_clients import verifying
from headgate.loadtest.http import Server, parse

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OWN = frozenset(
    (
        "host",
        "connection",
        "content-length",
        "content-type",
        "transfer-encoding",
        "authorization",
        "te",
        "upgrade",
    )
)


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where requests are sent, and what is sent with each of them."""

    url: str
    api_key: str = ""
    headers: list[tuple[str, str]] = []
    cacert: str | None = None
    """File with the certificates of authorities, instead of the system's."""
    cert: str | None = None
    """File with the client's certificate, and its key unless `key` has it."""
    key: str | None = None
    is_insecure: bool = False
    """Whether any certificate of the server is accepted."""

    def server(self) -> Server:
        """Raises ValueError, or OSError for files; ssl.SSLError is one."""
        for name, value in self.headers:
            _check(name, value)
        if not (self.api_key.isascii() and (self.api_key.isprintable())):
            raise ValueError("the API key has characters that a header must not have")
        server = parse(self.url, self.api_key, self.headers)
        return server if server.tls is None else server._replace(tls=self._context())

    def _context(self) -> ssl.SSLContext:
        context = verifying(ssl.create_default_context(cafile=self.cacert))
        if self.is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key)
        return context


def _check(name: str, value: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a header")
    if name.lower() in _OWN:
        raise ValueError(f"the header {name} is set by the client itself")
    if not (value.isprintable() and value.isascii()):
        raise ValueError(f"the value of the header {name} has characters that a header must not have")
