"""Verifies JSON Web Tokens by the public keys of their issuer."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from typing import Any

import jwt
import msgspec

from headgate.auth.outcome import Denial

log = logging.getLogger(__name__)

LEEWAY_S = 60.0
"""By how much the clocks of the issuer and of this machine may differ."""
ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""All of them asymmetric: with a shared secret, whoever can verify a token could make one."""
LONGEST = 16 * 1024
_LONGEST_SUBJECT = 256
_LATEST = 1e12
"""The last time that counts as one, in seconds since 1970: later ones, infinity and NaN would not end."""


class Issuer(msgspec.Struct, frozen=True, kw_only=True):
    """Whose tokens are accepted."""

    name: str
    """The claim `iss`; empty accepts any."""
    audiences: tuple[str, ...] = ()
    """One of them must be in the claim `aud`; none are checked if it is empty."""
    claim: str = "sub"
    """Names the tenant."""


class Valid(msgspec.Struct, frozen=True):
    subject: str
    ends_at: float


class UnknownKey(Exception):  # noqa: N818 - an outcome, not an error
    """The token names a key that is not known, which may have been published just now."""


Keys = Mapping[str, jwt.PyJWK]
"""By key id; a set with a single key that has no id has it as ""."""


def read_keys(document: bytes) -> dict[str, jwt.PyJWK]:
    """The keys of a JSON Web Key Set that can verify signatures. Raises ValueError."""
    try:
        written = msgspec.json.decode(document, type=_KeySet)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is not a JSON Web Key Set: {error}") from error
    found: dict[str, jwt.PyJWK] = {}
    for key in written.keys:
        # A private key ("d") that is published is no proof of anything.
        if key.get("use", "sig") != "sig" or key.get("kty") == "oct" or "d" in key:
            continue
        try:
            read = jwt.PyJWK.from_dict(key)
        except Exception:  # a key that cannot be read must not take away the others; PyJWT raises anything
            log.debug("a key of a JSON Web Key Set is left out", exc_info=True)
            continue
        found[str(key.get("kid", ""))] = read
    if not found:
        raise ValueError("it has no public key that can verify signatures")
    return found


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


def verify(token: str, keys: Keys, issuer: Issuer, now: float) -> Valid | Denial:
    """Raises UnknownKey."""
    try:
        head = jwt.get_unverified_header(token)
        key = _key_of(head, keys)
        claims = jwt.decode(
            token,
            key,
            algorithms=_algorithms(key),
            options={"verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_aud": False},
        )
    except jwt.PyJWTError as error:
        return _denied(f"{error}"[:128])
    return _judge(claims, issuer, now)


def _key_of(head: Mapping[str, Any], keys: Keys) -> jwt.PyJWK:
    kid = head.get("kid")
    if kid is None and len(keys) == 1:
        return next(iter(keys.values()))
    key = keys.get(kid if isinstance(kid, str) else "")
    if key is None:
        raise UnknownKey
    return key


def _algorithms(key: jwt.PyJWK) -> list[str]:
    """What its type allows: the token does not choose."""
    kinds = {"RSA": ("RS", "PS"), "EC": ("ES",), "OKP": ("EdDSA",)}[key.key_type or ""]
    named = key._jwk_data.get("alg")
    return [each for each in ALGORITHMS if each.startswith(kinds) and named in (None, each)]


def _judge(claims: Mapping[str, Any], issuer: Issuer, now: float) -> Valid | Denial:
    """The claims of a token with a valid signature."""
    ends_at, begins_at, issued_at = (_time(claims.get(name)) for name in ("exp", "nbf", "iat"))
    if ends_at is None:
        return _denied("it has no `exp`")
    for name, time in (("nbf", begins_at), ("iat", issued_at)):
        if time is None and claims.get(name) is not None:
            return _denied(f"its `{name}` is not a time")
    if ends_at + LEEWAY_S <= now:
        return _denied("it has expired")
    if begins_at is not None and begins_at - LEEWAY_S > now:
        return _denied("it is not valid yet")
    if issued_at is not None and issued_at - LEEWAY_S > now:
        return _denied("it was issued in the future")
    if issuer.name and claims.get("iss") != issuer.name:
        return _denied("its issuer is another one")
    audiences = claims.get("aud")
    named = [audiences] if isinstance(audiences, str) else audiences if isinstance(audiences, list) else []
    if issuer.audiences and not any(each in issuer.audiences for each in named):
        return _denied("it is for another audience")
    subject = claims.get(issuer.claim)
    if not isinstance(subject, str) or not subject:
        return _denied(f"its claim {issuer.claim!r}, which names the tenant, is not a text")
    if len(subject) > _LONGEST_SUBJECT:  # a part of it might be the name of another tenant
        return _denied(f"its claim {issuer.claim!r} has more than {_LONGEST_SUBJECT} characters")
    if not subject.isprintable():  # it becomes a name in logs and metrics
        return _denied(f"its claim {issuer.claim!r} has characters that cannot be printed")
    return Valid(subject, ends_at + LEEWAY_S)


def _time(claim: object) -> float | None:
    """None for what is no time."""
    if not isinstance(claim, int | float) or isinstance(claim, bool) or not -_LATEST <= claim <= _LATEST:
        return None
    return float(claim)


def _denied(why: str) -> Denial:
    return Denial(code="invalid_token", message=f"the token is not valid: {why}")


def looks_like_token(credential: bytes) -> bool:
    return credential.startswith(b"ey") and credential.count(b".") == 2 and len(credential) <= LONGEST


def fingerprint(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
