"""How to verify endpoints that use https: the settings of their pool, with the Secret that it references.

A CA certificate that cannot be read is never replaced by another: without it no endpoint is trusted.
"""

from __future__ import annotations

import base64
import binascii
import functools
import ssl
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from headgate import api
from headgate.api import gie_v1, gie_v1alpha1, marks
from headgate.api.marks import EndpointTls, InvalidAnnotationError
from headgate.routing.problems import INVALID_ANNOTATION

SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason
SECRET_KEY_NOT_FOUND = "SecretKeyNotFound"  # noqa: S105 - a reason
INVALID_CERTIFICATE = "InvalidCertificate"


PoolObject: TypeAlias = api.ModelServer | gie_v1.InferencePool | gie_v1alpha1.InferencePool


class Tls(msgspec.Struct, frozen=True):
    """Requirements on an endpoint's certificate."""

    authorities: str = ""
    """PEM certificates, one of which must have signed it; empty for the CA certificates of the system."""
    server_name: str = ""
    """The name to verify and to send as SNI; empty for the endpoint's address."""
    is_verified: bool = True
    """Whether the certificate is verified at all."""


class TlsError(ValueError):
    """Why no endpoint of a pool can be verified as configured; `annotation` names the annotation."""

    def __init__(self, annotation: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.annotation = annotation
        self.reason = reason


def authorities_of(pool: PoolObject) -> api.ObjectKey | None:
    """The Secret with the CA certificates; None for those of the system, and without https."""
    if marks.TLS_AUTHORITIES not in pool.metadata.annotations:
        return None
    try:
        asked = _annotated(pool)
    except InvalidAnnotationError:
        return None
    return api.ObjectKey(pool.metadata.namespace, asked.secret) if asked is not None else None


def settings(pool: PoolObject, secrets: Mapping[api.ObjectKey, api.Secret]) -> Tls | None:
    """The TLS settings of a pool's endpoints; None for plain HTTP. Raises TlsError."""
    try:
        asked = _annotated(pool)
    except InvalidAnnotationError as error:
        raise TlsError(error.annotation, INVALID_ANNOTATION, str(error)) from error
    if asked is None:
        return None
    authorities = ""
    if asked.secret:
        key = api.ObjectKey(pool.metadata.namespace, asked.secret)
        authorities = _authorities(key, asked.key, secrets)
    return Tls(authorities, asked.server_name, not asked.insecure)


def _annotated(pool: PoolObject) -> EndpointTls | None:
    """None for plain HTTP. Raises InvalidAnnotationError."""
    notes = pool.metadata.annotations
    if isinstance(pool, api.ModelServer):
        port = pool.spec.workload_port
        is_https = port is not None and port.protocol == "https"
    else:
        is_https = marks.protocol(notes) == "https"
    return EndpointTls.parse(notes) if is_https else None


def _authorities(key: api.ObjectKey, entry: str, secrets: Mapping[api.ObjectKey, api.Secret]) -> str:
    secret = secrets.get(key)
    if secret is None:
        told = f"there is no Secret {key}, or it may not be read"
        raise TlsError(marks.TLS_AUTHORITIES, SECRET_NOT_FOUND, told)
    encoded = secret.data.get(entry)
    if encoded is None:
        there = ", ".join(sorted(secret.data)[:8]) or "none"
        told = f"Secret {key} has no key {entry} (its keys: {there})"
        raise TlsError(marks.TLS_AUTHORITIES, SECRET_KEY_NOT_FOUND, told)
    try:
        text = base64.b64decode(encoded, validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError):
        told = f"key {entry} of Secret {key} is not PEM text"
        raise TlsError(marks.TLS_AUTHORITIES, INVALID_CERTIFICATE, told) from None
    if wrong := _wrong(text):
        told = f"key {entry} of Secret {key} has no certificates in PEM form: {wrong}"
        raise TlsError(marks.TLS_AUTHORITIES, INVALID_CERTIFICATE, told)
    return text


@functools.lru_cache(maxsize=64)
def _wrong(authorities: str) -> str:
    """Why the text is not valid PEM, as OpenSSL says it; empty if it is valid."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authorities)
    except (ssl.SSLError, ValueError) as error:
        return str(error)
    return ""
