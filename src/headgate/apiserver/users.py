"""Authentication by bearer tokens: the administrator's, and named tokens.

Of a named token only the SHA-256 is stored, in a file with mode 0600 that the command line writes and the
server reloads when it changes. A token has 256 random bits, so a plain hash suffices.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from headgate import private_files

Role = Literal["admin", "read-only"]

ADMIN = "headgate-admin"
MASTERS = "system:masters"
"""The group that may do everything."""
MAX_TOKENS = 1000
AUDIENCE = "https://kubernetes.default.svc"
"""Of tokens for this server, which also issues those of service accounts."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_GROUPS = {
    "admin": (MASTERS, "system:authenticated"),
    "read-only": ("headgate:readers", "system:authenticated"),
}


class TokenError(ValueError):
    """A token cannot be created or revoked; the message says why and what to do."""


@dataclass(frozen=True)
class User:
    """The user of a valid token, or an impersonated one, who may have no role."""

    name: str
    role: Role | None
    other_groups: tuple[str, ...] = ()
    uid: str = ""
    audiences: tuple[str, ...] = (AUDIENCE,)
    """Of the token."""

    @property
    def groups(self) -> tuple[str, ...]:
        own = _GROUPS[self.role] if self.role else ("system:authenticated",)
        return tuple(dict.fromkeys([*own, *self.other_groups]))


class Token(msgspec.Struct, frozen=True):
    """The stored data of a named token."""

    name: str
    role: Role
    sha256: str
    created: str


class Tokens:
    """The named tokens of a state directory."""

    def __init__(self, state: Path) -> None:
        self._path = state / "pki" / "tokens.json"
        self._path_text = str(self._path)

    def list(self) -> Sequence[Token]:
        if not self._path.exists():
            return []
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[Token])
        except msgspec.DecodeError as error:
            raise TokenError(f"{self._path} cannot be read: {error}; mend it, or remove it") from error

    def create(self, name: str, role: Role, now: datetime.datetime) -> str:
        """Create a token; it cannot be shown again."""
        present = self.list()
        if not _NAME.fullmatch(name) or name == ADMIN:
            raise TokenError(f"{name!r} cannot be a token's name: use small letters, digits, '-' and '.'")
        if any(token.name == name for token in present):
            raise TokenError(f"there is a token {name!r} already; revoke it first, or choose another name")
        if len(present) >= MAX_TOKENS:
            raise TokenError(f"there are {MAX_TOKENS} tokens, which is the limit; revoke some")
        secret = f"hg_{secrets.token_urlsafe(32)}"
        made = Token(name, role, digest(secret), now.replace(microsecond=0).isoformat())
        self._write([*present, made])
        return secret

    def revoke(self, name: str) -> None:
        present = self.list()
        kept = [token for token in present if token.name != name]
        if len(kept) == len(present):
            raise TokenError(f"there is no token {name!r}; `headgate apiserver token list` shows all")
        self._write(kept)

    def version(self) -> tuple[int, ...]:
        """Changes whenever the file does."""
        try:
            found = os.stat(self._path_text)
        except FileNotFoundError:
            return ()
        return (found.st_mtime_ns, found.st_ino, found.st_size)

    def _write(self, tokens: Sequence[Token]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        private_files.write(self._path, msgspec.json.format(msgspec.json.encode(tokens)))


LOOK_AGAIN_S = 0.1
"""How long a valid token is accepted without checking the file again."""


class Accounts(Protocol):
    """Checks tokens of service accounts."""

    def user(self, token: str) -> User | None: ...


class Authenticator:
    """Finds the user of a request by its Authorization header; `now` is a clock in seconds."""

    def __init__(
        self,
        admin_token: str,
        tokens: Tokens | None = None,
        accounts: Accounts | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._admin = digest(admin_token)
        self._tokens = tokens
        self._accounts = accounts
        self._now = now
        self._look_at = 0.0
        self._version: tuple[int, ...] | None = None
        self._users: dict[str, User] = {}
        self._known: dict[bytes, User] = {}
        """By valid Authorization header: at most as many as there are tokens."""

    def user(self, authorization: bytes) -> User | None:
        """The user of `Bearer TOKEN`; None for anything else."""
        known = self._known.get(authorization)
        if known is not None and self._now() < self._look_at:
            return known
        scheme, _, token = authorization.partition(b" ")
        if scheme != b"Bearer" or not token:
            return None
        user = self._named(token.decode("latin-1"))
        if user is not None:
            self._known[authorization] = user
            return user
        account = self.bearer(token.decode("latin-1"))
        return account if account is not None and AUDIENCE in account.audiences else None

    def bearer(self, token: str) -> User | None:
        """The user of a token for whichever audiences."""
        user = self._named(token)
        if user is None and self._accounts is not None:
            return self._accounts.user(token)
        return user

    def _named(self, token: str) -> User | None:
        # Looked up by hash: the time this takes reveals nothing about the tokens.
        self._refresh()
        return self._users.get(digest(token))

    def named(self, name: str, groups: Sequence[str]) -> User:
        """A user by name, with the role from their token or a group."""
        self._refresh()
        known = next((user.role for user in self._users.values() if user.name == name), None)
        return User(name, "admin" if MASTERS in groups else known, tuple(groups))

    def _refresh(self) -> None:
        self._look_at = self._now() + LOOK_AGAIN_S
        version = self._tokens.version() if self._tokens else ()
        if version == self._version:
            return
        named = self._tokens.list() if self._tokens else []
        self._users = {token.sha256: User(token.name, token.role) for token in named}
        self._users[self._admin] = User(ADMIN, "admin")
        self._known = {}
        self._version = version


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
