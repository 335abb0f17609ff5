"""Remembers which tokens are valid, so that a token is verified once, and not for each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headgate.auth import tokens
from headgate.auth.directory import Directory
from headgate.auth.outcome import Denial, Identity

MAX_VALID = 10_000
MAX_DENIED = 1000
DENIED_S = 10.0
"""How long a rejected token is rejected without verifying it again."""

T = TypeVar("T")

FETCHING = Denial(
    code="keys_unavailable",
    message="the keys that verify tokens are being fetched: try again soon",
    status=503,
)


class TokenCache:
    """Both of its sides are bounded, oldest first: by the time of verification."""

    def __init__(
        self,
        issuer: tokens.Issuer,
        directory: Directory,
        keys: Callable[[], tokens.Keys],
        wanted: Callable[[], bool],
    ) -> None:
        """`keys`: the present key set. `wanted` is called for a token with an unknown key, and returns
        whether other keys may come soon."""
        self._issuer = issuer
        self._directory = directory
        self._keys = keys
        self._wanted = wanted
        self._valid: dict[bytes, Identity] = {}
        self._denied: dict[bytes, tuple[Denial, float]] = {}

    def identity(self, credential: bytes, digest: bytes, now: float) -> Identity | Denial | None:
        """The client of a token, by its SHA-256; None if it is no token."""
        known = self._valid.get(digest)
        if known is not None and known.ends_at > now:
            return known
        if not tokens.looks_like_token(credential):
            return None
        denied = self._denied.get(digest)
        if denied is not None and denied[1] > now:
            return denied[0]
        try:
            found = tokens.verify(credential.decode("latin-1"), self._keys(), self._issuer, now)
        except tokens.UnknownKey:
            if self._wanted():
                return FETCHING
            found = Denial(
                code="invalid_token", message="the token is not valid: no key of its issuer made it"
            )
        identity: Identity | Denial = (
            self._directory.of_subject(found.subject, "token", found.ends_at)
            if isinstance(found, tokens.Valid)
            else found
        )
        if isinstance(identity, Identity):
            _put(self._valid, digest, identity, MAX_VALID)
        else:
            _put(self._denied, digest, (identity, now + DENIED_S), MAX_DENIED)
        return identity

    def forget(self) -> None:
        """Other keys verify tokens from now on."""
        self._valid.clear()
        self._denied.clear()

    def statistics(self) -> dict[str, int]:
        return {"valid": len(self._valid), "denied": len(self._denied)}


def _put(cache: dict[bytes, T], digest: bytes, value: T, most: int) -> None:
    cache.pop(digest, None)
    while len(cache) >= most:
        del cache[next(iter(cache))]
    cache[digest] = value
