"""API keys: how they are made, and what is stored of them.

A key is `hg_ID_SECRET`. The secret has 160 random bits, so nobody can guess it, and its plain SHA-256 is safe
to store: slow hashes protect only what people choose themselves.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
import secrets

import msgspec

from headgate.kubeschema import timestamps

PREFIX = "hg_"
_ID_BYTES, _SECRET_BYTES = 5, 20
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TENANT = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Key(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is stored of a key."""

    id: str
    tenant: str
    sha256: str
    """Of the whole key, in hexadecimal."""
    created: str = ""
    """RFC 3339."""
    expires: str = ""
    """RFC 3339; empty if it does not expire."""
    admin: bool = False
    """Whether it opens the metrics and admin pages instead of the inference API."""

    @property
    def ends_at(self) -> float:
        """In seconds since 1970; infinite if it does not expire."""
        return timestamps.parse(self.expires) if self.expires else math.inf


def create(tenant: str, created: str, *, expires: str = "", admin: bool = False) -> tuple[str, Key]:
    """A new key, and what to store of it."""
    id_, secret = (
        base64.b32encode(secrets.token_bytes(size)).decode().lower() for size in (_ID_BYTES, _SECRET_BYTES)
    )
    shown = f"{PREFIX}{id_}_{secret}"
    hashed = digest(shown.encode()).hex()
    return shown, Key(id=id_, tenant=tenant, sha256=hashed, created=created, expires=expires, admin=admin)


def digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def problems(key: Key) -> list[tuple[str, str]]:
    """The errors in what is stored: field, and what is wrong."""
    found = []
    if not key.id:
        found.append(("id", "a text is needed"))
    if not _TENANT.fullmatch(key.tenant):
        found.append(("tenant", f"{key.tenant[:64]!r}: {WANTED_TENANT}"))
    if not _SHA256.fullmatch(key.sha256):
        found.append(("sha256", "64 hexadecimal digits are needed, as `headgate key create` writes them"))
    for name in ("created", "expires"):
        text = getattr(key, name)
        try:
            if text:
                timestamps.parse(text)
        except ValueError:
            found.append((name, f"{text[:64]!r} is not a time such as 2030-01-31T00:00:00Z"))
    return found


WANTED_TENANT = "the name of a tenant has lower-case letters, digits, '-' and '.'"


def is_tenant_name(text: str) -> bool:
    return _TENANT.fullmatch(text) is not None
