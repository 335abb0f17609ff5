"""Admits clients: the only code of this package that runs for each request."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, Protocol

from headgate.auth.outcome import ADMIN_ONLY, MISSING, UNKNOWN, Denial, Identity

if TYPE_CHECKING:
    from headgate.auth.directory import Directory

Header = tuple[bytes, bytes]
"""Lower-case name and value."""

CREDENTIALS: Final = frozenset({b"authorization", b"x-api-key", b"api-key"})
"""The first two are those of OpenAI's and Anthropic's clients, the third is Azure's."""
MAX_TRIED: Final = 4
"""Of one request: to verify a token takes as long as some requests, and a head may hold a hundred."""
_BEARER: Final = b"bearer "


class Tokens(Protocol):
    """Verifies tokens that are not API keys."""

    def identity(self, credential: bytes, digest: bytes, now: float) -> Identity | Denial | None:
        """None for what is no token."""
        ...


class Certificate(Protocol):
    """The verified client certificate of a connection."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its names, the most specific first: URIs, DNS names, then the common name."""
        ...


class Gate:
    """Immutable; another one takes its place when keys or tenants change."""

    __slots__ = ("_by_certificate", "_directory", "_keeps", "_tokens")

    def __init__(
        self,
        directory: Directory,
        tokens: Tokens | None = None,
        *,
        by_certificate: bool = False,
        keeps: bool = False,
    ) -> None:
        """`by_certificate`: whether a client certificate is enough. `keeps`: whether the endpoint gets the
        credentials that were accepted."""
        self._directory = directory
        self._tokens = tokens
        self._by_certificate = by_certificate
        self._keeps = keeps

    def admit(self, headers: list[Header], certificate: Certificate | None, now: float) -> Identity | Denial:
        """The client that sent these headers. Removes the accepted credentials from them; others may be for
        the endpoint. `now`: seconds since 1970."""
        denial = MISSING
        names = CREDENTIALS  # compiled, a global is a lookup each time
        given = [place for place, header in enumerate(headers) if header[0] in names]
        for place in given[:MAX_TRIED]:
            credential = _credential(headers[place])
            if not credential:
                continue  # the response then says how to send one
            found = self.client_of(credential, now)
            if isinstance(found, Denial):
                denial = found
            else:
                if self._keeps:
                    pass
                elif len(given) == 1:
                    del headers[place]
                else:
                    _remove(headers, credential)
                return found
        if self._by_certificate and certificate is not None:
            found = self._of_certificate(certificate)
            return found if denial is MISSING or isinstance(found, Identity) else denial
        return denial

    def still_allows(self, identity: Identity, model: str | None) -> bool:
        """Whether a client that was admitted before may still use a model, or None where there is none."""
        return self._directory.still_allows(identity, model)

    def client_of(self, credential: bytes, now: float) -> Identity | Denial:
        """The client whose credential it is. Keys of administrators open pages only."""
        found = self.identify(credential, now)
        return ADMIN_ONLY if isinstance(found, Identity) and found.is_admin else found

    def identify(self, credential: bytes, now: float) -> Identity | Denial:
        """Whose credential it is."""
        digest = hashlib.sha256(credential).digest()
        found = self._directory.of_key(digest, now)
        if found is UNKNOWN and self._tokens is not None:
            return self._tokens.identity(credential, digest, now) or found
        return found

    def _of_certificate(self, certificate: Certificate) -> Identity | Denial:
        """By the first of its names that belongs to a tenant, or else by its first name."""
        directory, names = self._directory, certificate.names
        if not names:
            return MISSING
        name = next((each for each in names if directory.has_subject(each)), names[0])
        return directory.of_subject(name, "certificate", float("inf"))


def _credential(header: Header) -> bytes:
    """The key or token in a header; empty if its scheme is another one."""
    name, value = header
    if name != b"authorization":
        return value.strip()
    return value[len(_BEARER) :].strip() if value[: len(_BEARER)].lower() == _BEARER else b""


def _remove(headers: list[Header], credential: bytes) -> None:
    headers[:] = [
        header for header in headers if header[0] not in CREDENTIALS or _credential(header) != credential
    ]
