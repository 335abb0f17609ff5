"""Certificates of HTTPS listeners: the Secrets of type kubernetes.io/tls that they refer to."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

import msgspec

from headgate import api

CERTIFICATE_KEY, PRIVATE_KEY_KEY = "tls.crt", "tls.key"
MAX_BYTES: Final = 1 << 20

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----\s+[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_PRIVATE_KEY: Final = re.compile(
    rb"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]+-----END (?:[A-Z]+ )?PRIVATE KEY-----"
)


class InvalidCertificateError(ValueError):
    """Why a Secret cannot be served as a certificate."""


class Certificate(msgspec.Struct, frozen=True):
    """A certificate with its chain, and its private key, in PEM form."""

    secret: api.ObjectKey
    chain: bytes
    private_key: bytes

    def __repr__(self) -> str:
        return f"Certificate({self.secret})"  # without the key, for logs


def read(key: api.ObjectKey, secret: api.Secret | None) -> Certificate:
    """The certificate in a Secret. Whether key and certificate belong together is known once they are
    loaded. Raises InvalidCertificateError."""
    if secret is None:
        raise InvalidCertificateError(f"there is no Secret {key}, or it may not be read")
    chain = _entry(key, secret, CERTIFICATE_KEY, _CERTIFICATE, "certificate")
    return Certificate(key, chain, _entry(key, secret, PRIVATE_KEY_KEY, _PRIVATE_KEY, "private key"))


def _entry(key: api.ObjectKey, secret: api.Secret, entry: str, form: re.Pattern[bytes], what: str) -> bytes:
    encoded = secret.data.get(entry)
    if encoded is None:
        raise InvalidCertificateError(f"Secret {key} has no key {entry}")
    try:
        text = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        raise InvalidCertificateError(f"key {entry} of Secret {key} is not valid base64") from None
    if len(text) > MAX_BYTES or not form.search(text):
        raise InvalidCertificateError(f"key {entry} of Secret {key} has no {what} in PEM form")
    return text
