"""Issues server certificates for this machine, each with a CA of its own."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 825
PEM = serialization.Encoding.PEM
MALFORMED = (
    ValueError,
    TypeError,
    InvalidSignature,
    UnsupportedAlgorithm,
    x509.InvalidVersion,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.UnsupportedGeneralNameType,
)
"""Errors about certificates and keys that others have written."""


class Issued(NamedTuple):
    """All in PEM."""

    ca: bytes
    cert: bytes
    key: bytes


def issue(
    common_name: str,
    hosts: Iterable[str],
    now: datetime.datetime,
    valid: datetime.timedelta = datetime.timedelta(days=VALID_DAYS),
) -> Issued:
    """A server certificate for these names and addresses, with its key and its CA, which expire together.

    The CA's key is discarded: it never signs anything else, so nothing else can be trusted by mistake.
    """
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _named("headgate-ca")
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), now, valid)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    cert = (
        _builder(_named(common_name), ca_name, key.public_key(), now, valid)
        .add_extension(x509.SubjectAlternativeName(alternative_names(hosts)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())

    return Issued(ca.public_bytes(PEM), cert.public_bytes(PEM), private)


def expires(issued: Issued, hosts: Iterable[str], now: datetime.datetime) -> datetime.datetime | None:
    """When a certificate expires; None if it cannot be used: it is malformed or expired, its CA or its key is
    another, or it does not cover all of these names and addresses.

    All certificates of its chain must be well-formed, and all of its CA.
    """
    wanted = set(alternative_names(hosts))
    try:
        cert, *_ = x509.load_pem_x509_certificates(issued.cert)
        ca, *_ = x509.load_pem_x509_certificates(issued.ca)
        cert.verify_directly_issued_by(ca)
        key = serialization.load_pem_private_key(issued.key, password=None)
        covered = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        is_right = key.public_key() == cert.public_key() and wanted <= set(covered)
        end = min(cert.not_valid_after_utc, ca.not_valid_after_utc)
    except MALFORMED:
        return None
    return end if is_right and now < end else None


def load(context: ssl.SSLContext, issued: Issued) -> None:
    """Serve the certificate from now on; raises ssl.SSLError if OpenSSL refuses it or its key."""
    # A context reads files only; this one is in memory where the system allows it, as the root file system
    # may be read-only.
    descriptor = _private_file()
    try:
        os.write(descriptor, issued.cert + b"\n" + issued.key)
        os.lseek(descriptor, 0, os.SEEK_SET)
        context.load_cert_chain(f"/dev/fd/{descriptor}", password=_refuse_encrypted)
    finally:
        os.close(descriptor)


def _refuse_encrypted() -> str:
    """For an encrypted key. OpenSSL would ask the terminal for its password. A wrong one decrypts one key in
    some hundreds to bytes that OpenSSL skips, so that it sometimes accepts the certificate."""
    raise ssl.SSLError("a private key is encrypted")


def _private_file() -> int:
    """A descriptor of an anonymous file."""
    with contextlib.suppress(AttributeError, OSError):
        return os.memfd_create("certificate", os.MFD_CLOEXEC)
    file, path = tempfile.mkstemp()
    os.unlink(path)
    return file


def fingerprint(cert: bytes) -> str:
    """SHA-256 of a certificate in PEM form, in hexadecimal; of a chain, that of its first."""
    return x509.load_pem_x509_certificates(cert)[0].fingerprint(hashes.SHA256()).hex()


def is_accepted(issued: Issued) -> bool:
    """Whether OpenSSL can serve the certificate: its rules are stricter than those of `expires`."""
    try:
        load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), issued)
    except ssl.SSLError:
        return False
    return True


def alternative_names(hosts: Iterable[str]) -> list[x509.GeneralName]:
    """Names and addresses as certificate extensions, each once."""
    return [_general_name(host) for host in dict.fromkeys(hosts)]


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime.datetime,
    valid: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + valid)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
