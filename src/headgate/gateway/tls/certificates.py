"""A certificate with its key, checked before it is served."""

from __future__ import annotations

import functools
import ssl

import msgspec


class CertificateError(OSError):
    """Why a certificate cannot be served; the message names its source."""


class Pair(msgspec.Struct, frozen=True):
    """A certificate with its chain, and its private key, in PEM form."""

    source: str
    """Where it comes from, for messages and metrics: a file, or a Secret."""
    chain: bytes
    private_key: bytes

    def __repr__(self) -> str:
        return f"Pair({self.source})"  # without the key, for logs


class Loaded(msgspec.Struct, frozen=True):
    """A pair that OpenSSL accepts, and what its certificate says."""

    pair: Pair
    names: tuple[str, ...]
    """The DNS names that it is for, in lower case; some begin with "*."."""
    key_kind: str
    """Of its key, such as RSA: a context has one certificate of each kind."""
    expires_at: float
    """In seconds since 1970."""
    fingerprint: str
    """SHA-256 of the certificate, in hexadecimal."""

    def covers(self, name: str) -> bool:
        """Whether it is for this host name, which is in lower case."""
        return name in self.names or f"*.{name.partition('.')[2]}" in self.names


@functools.lru_cache(maxsize=256)
def load(pair: Pair) -> Loaded:
    """Check that certificate and key are valid and belong together. Raises CertificateError."""
    from cryptography import x509

    from headgate.serving import certificates  # takes megabytes that most gateways never need

    issued = certificates.Issued(b"", pair.chain, pair.private_key)
    try:
        certificates.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), issued)
        cert, *_ = x509.load_pem_x509_certificates(pair.chain)
        try:
            covered = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            names = tuple(name.lower() for name in covered.get_values_for_type(x509.DNSName))
        except x509.ExtensionNotFound:
            names = ()
        kind = type(cert.public_key()).__name__.removesuffix("PublicKey")
        expires_at = cert.not_valid_after_utc.timestamp()
    except ssl.SSLError as error:
        why = f"OpenSSL rejects it: {getattr(error, 'reason', None) or error}"
        told = f"{pair.source}: not a certificate in PEM form and its key, without a password: {why}"
        raise CertificateError(told) from error
    except certificates.MALFORMED as error:
        raise CertificateError(f"{pair.source}: the certificate is malformed: {error}") from error
    return Loaded(pair, names, kind, expires_at, certificates.fingerprint(pair.chain))
