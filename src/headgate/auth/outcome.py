"""What becomes of a client: an identity, or the reason why there is none."""

from __future__ import annotations

import math

import msgspec

from headgate.auth.tenant import Grant


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated client."""

    grant: Grant
    by: str
    """How it was authenticated, for logs: `key` and its id, `token`, or `certificate`."""
    is_admin: bool = False
    ends_at: float = math.inf
    """When this is no longer valid, in seconds since 1970."""


class Denial(msgspec.Struct, frozen=True, kw_only=True):
    """Why a client is not admitted; `message` says it to the client, and holds no secret."""

    code: str
    message: str
    status: int = 401


MISSING = Denial(
    code="missing_credentials",
    message=(
        "the request has no credentials: send an API key as `authorization: Bearer KEY` or `x-api-key: KEY`"
    ),
)
UNKNOWN = Denial(
    code="invalid_api_key",
    message="the API key is not valid: it was revoked, or never existed; `headgate key create` makes one",
)
EXPIRED = Denial(code="expired_api_key", message="the API key has expired: ask for a new one")
NO_ADMIN = Denial(
    code="not_an_admin",
    message="these credentials do not open this page: use a key made with --admin",
    status=403,
)
ADMIN_ONLY = Denial(
    code="admin_key",
    message="this key opens the metrics and admin pages only: use one made without --admin",
    status=403,
)

TENANTS_UNKNOWN = Denial(
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
