"""The rotation of certificates as decisions: no clock, and no I/O but OpenSSL's reading of memory.

An API server must trust a certificate before any process serves it, and go on trusting the former one until
no process serves that. So a new certificate first is `coming`: its CA is published beside the current one.
After `overlap`, when all API servers have loaded that, it becomes the current one. Former CAs stay published
until they expire.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Iterable, Mapping

import msgspec
from cryptography import x509

from headgate.serving import certificates
from headgate.serving.certificates import Issued

__all__ = ["Kept", "Terms", "advanced", "bundle", "certificates_in", "from_secret", "served", "to_secret"]

_CURRENT = ("ca.crt", "tls.crt", "tls.key")
_COMING = ("next-ca.crt", "next-tls.crt", "next-tls.key")
_FORMER, _PUBLISHED = "former-ca.crt", "published-at"
_MAX_FORMER = 8
_MAX_BYTES = 64 * 1024
"""Of one value of the Secret."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Names and times of certificates."""

    names: tuple[str, ...]
    """DNS names and addresses by which API servers reach the webhook."""
    valid: datetime.timedelta = datetime.timedelta(days=90)
    overlap: datetime.timedelta = datetime.timedelta(minutes=2)
    """How long API servers and other processes may take to load what was written."""

    @property
    def renew_before(self) -> datetime.timedelta:
        return self.valid / 3


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the Secret."""

    current: Issued | None = None
    coming: Issued | None = None
    former: tuple[bytes, ...] = ()
    """CAs of earlier certificates, in PEM, the newest first."""
    published_at: datetime.datetime | None = None
    """When the CA of `coming` was published; None if it was not."""


def from_secret(data: Mapping[str, str]) -> Kept:
    """Whatever of it is well-formed."""
    values = {name: value for name, text in data.items() if (value := _decoded(text)) is not None}
    published = None
    try:
        published = datetime.datetime.fromisoformat(values.get(_PUBLISHED, b"").decode())
        if published.tzinfo is None:
            published = None
    except ValueError:
        pass
    return Kept(
        current=_issued(values, _CURRENT),
        coming=_issued(values, _COMING),
        former=tuple(certificates_in(values.get(_FORMER, b""))),
        published_at=published,
    )


def to_secret(kept: Kept) -> dict[str, str]:
    """The data of the Secret, in base64."""
    values: dict[str, bytes] = {}
    for names, issued in ((_CURRENT, kept.current), (_COMING, kept.coming)):
        if issued is not None:
            values |= dict(zip(names, issued, strict=True))
    if kept.former:
        values[_FORMER] = b"".join(kept.former)
    if kept.published_at is not None:
        values[_PUBLISHED] = kept.published_at.isoformat().encode()
    return {name: base64.b64encode(value).decode() for name, value in values.items()}


def served(kept: Kept, terms: Terms, now: datetime.datetime, running: Issued | None) -> Issued | None:
    """The certificate that a process should serve now; `running` is the one that it serves already.

    That is trusted, as opposed to a coming one, even if the Secret has lost it.
    """
    usable = (each for each in (kept.current, running, kept.coming) if _usable_until(each, terms, now))
    return next(usable, None)


def bundle(kept: Kept, published: bytes, now: datetime.datetime, running: Issued | None) -> bytes:
    """The CAs to publish: all that may be served, and those of `published` that have not expired.

    A process may still serve a certificate that the Secret has lost. `running` is what this one serves.
    """
    wanted = [issued.ca for issued in (kept.coming, kept.current, running) if issued is not None]
    found = [ca for part in (*wanted, *kept.former, published) for ca in certificates_in(part)]
    usable = [ca for ca in dict.fromkeys(found) if _expires(ca) > now]
    return b"".join(usable[: 3 + _MAX_FORMER])


def advanced(kept: Kept, terms: Terms, now: datetime.datetime, *, is_published: bool) -> Kept:
    """The next content of the Secret; the same if nothing is to be done yet.

    `is_published` says whether every CA of it is in the configuration of the webhook.
    """
    end = _usable_until(kept.current, terms, now)
    coming_end = _usable_until(kept.coming, terms, now)
    if end is not None and end - now > terms.renew_before:
        return kept
    if kept.coming is None or coming_end is None or coming_end - now <= terms.renew_before:
        issued = certificates.issue("headgate-webhook", terms.names, now, terms.valid)
        return msgspec.structs.replace(kept, coming=issued, published_at=None)
    if not is_published:
        return msgspec.structs.replace(kept, published_at=None)
    if kept.published_at is None or kept.published_at > now:
        return msgspec.structs.replace(kept, published_at=now)
    if now < kept.published_at + terms.overlap:
        return kept
    former = (kept.current.ca, *kept.former) if kept.current is not None else kept.former
    usable = [ca for part in former for ca in certificates_in(part) if _expires(ca) > now]
    return Kept(current=kept.coming, former=tuple(usable[:_MAX_FORMER]))


def certificates_in(pem: bytes) -> Iterable[bytes]:
    """The certificates of a bundle, each in PEM; none if it is malformed."""
    try:
        found = x509.load_pem_x509_certificates(pem[:_MAX_BYTES]) if pem.strip() else []
    except certificates.MALFORMED:
        return []
    return [each.public_bytes(certificates.PEM) for each in found]


def _usable_until(issued: Issued | None, terms: Terms, now: datetime.datetime) -> datetime.datetime | None:
    """When it expires; None if it cannot be served."""
    if issued is None:
        return None
    end = certificates.expires(issued, terms.names, now)
    return end if end is not None and certificates.is_accepted(issued) else None


def _expires(ca: bytes) -> datetime.datetime:
    return x509.load_pem_x509_certificate(ca).not_valid_after_utc


def _issued(values: Mapping[str, bytes], names: tuple[str, str, str]) -> Issued | None:
    return Issued(*(values[name] for name in names)) if all(name in values for name in names) else None


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if len(text) <= _MAX_BYTES else None
    except (binascii.Error, ValueError):
        return None
