"""What becomes of a client: an identity, or the reason why there is none."""

from __future__ import annotations

import math
from typing import Final

from headgate.auth.tenant import Grant


class Identity:
    """An authenticated client. Immutable, and a plain class: all requests read it, and a compiled class is
    quicker to read than a msgspec.Struct."""

    __slots__ = ("by", "ends_at", "grant", "is_admin")

    def __init__(self, *, grant: Grant, by: str, is_admin: bool = False, ends_at: float = math.inf) -> None:
        """`by`: how it was authenticated, for logs: `key` and its id, `token`, or `certificate`. `ends_at`:
        when this is no longer valid, in seconds since 1970."""
        self.grant = grant
        self.by = by
        self.is_admin = is_admin
        self.ends_at = ends_at


class Denial:
    """Why a client is not admitted; `message` says it to the client, and holds no secret. Immutable."""

    __slots__ = ("code", "message", "status")

    def __init__(self, *, code: str, message: str, status: int = 401) -> None:
        self.code = code
        self.message = message
        self.status = status


MISSING: Final = Denial(
    code="missing_credentials",
    message=(
        "the request has no credentials: send an API key as `authorization: Bearer KEY` or `x-api-key: KEY`"
    ),
)
UNKNOWN: Final = Denial(
    code="invalid_api_key",
    message="the API key is not valid: it was revoked, or never existed; `headgate key create` makes one",
)
EXPIRED: Final = Denial(code="expired_api_key", message="the API key has expired: ask for a new one")
NO_ADMIN: Final = Denial(
    code="not_an_admin",
    message="these credentials do not open this page: use a key made with --admin",
    status=403,
)
ADMIN_ONLY: Final = Denial(
    code="admin_key",
    message="this key opens the metrics and admin pages only: use one made without --admin",
    status=403,
)

TENANTS_UNKNOWN: Final = Denial(
    code="tenants_unavailable",
    message="what tenants may do has not been read yet: try again soon",
    status=503,
)


def unknown_tenant(name: str) -> Denial:
    return Denial(
        code="unknown_tenant",
        message=f"no Tenant is defined for {name[:128]!r}, and there is none called default: create one",
        status=403,
    )
