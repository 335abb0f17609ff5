"""The laptop's own certificate authority, server certificate and token: made once, reused later."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
import secrets
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_DAYS = 825
RENEW_BEFORE_DAYS = 30
NAMES = ("localhost",)
ADDRESSES = ("127.0.0.1", "::1")


@dataclass(frozen=True)
class Identity:
    """Files of the server's identity, all of mode 0600 in one directory."""

    ca: Path
    cert: Path
    key: Path
    token: str

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.cert, self.key)
        return context


def ensure(directory: Path, host: str, now: datetime.datetime) -> Identity:
    """The identity in `directory`, made anew where it is missing, expires soon, or does not cover `host`."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    identity = Identity(
        directory / "ca.crt", directory / "server.crt", directory / "server.key", _token(directory / "token")
    )
    if not _usable(identity, host, now):
        _make(identity, host, now)
    return identity


def write_private(path: Path, data: bytes) -> None:
    """Writes a file of mode 0600 so that a reader sees the old one or the whole new one."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def kubeconfig(identity: Identity, url: str) -> bytes:
    """A kubeconfig for the only user, CA and token inside."""
    name = "headgate"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": url,
                    "certificate-authority-data": base64.b64encode(identity.ca.read_bytes()).decode(),
                },
            }
        ],
        "users": [{"name": name, "user": {"token": identity.token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    return yaml.safe_dump(config, sort_keys=False).encode()


def write_kubeconfig_for(own: Path, path: Path, name: str, token: str) -> None:
    """Writes a kubeconfig for somebody else: address and CA of the server's own one, with this token."""
    config = yaml.safe_load(own.read_bytes())
    cluster = config["clusters"][0]["name"]
    config["users"] = [{"name": name, "user": {"token": token}}]
    context = {"cluster": cluster, "user": name, "namespace": "default"}
    config["contexts"] = [{"name": name, "context": context}]
    config["current-context"] = name
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def _token(path: Path) -> str:
    if path.exists() and (token := path.read_text().strip()):
        return token
    token = secrets.token_urlsafe(32)
    write_private(path, token.encode())
    return token


def _usable(identity: Identity, host: str, now: datetime.datetime) -> bool:
    if not (identity.ca.exists() and identity.cert.exists() and identity.key.exists()):
        return False
    try:
        cert = x509.load_pem_x509_certificate(identity.cert.read_bytes())
        cert.verify_directly_issued_by(x509.load_pem_x509_certificate(identity.ca.read_bytes()))
        identity.server_context()
        covered = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, ssl.SSLError, x509.ExtensionNotFound):
        return False
    fresh = cert.not_valid_after_utc > now + datetime.timedelta(days=RENEW_BEFORE_DAYS)
    return fresh and set(_alternative_names(host)) <= set(covered)


def _alternative_names(host: str) -> list[x509.GeneralName]:
    names = list(dict.fromkeys((*NAMES, *ADDRESSES, host)))
    return [_general_name(name) for name in names]


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _make(identity: Identity, host: str, now: datetime.datetime) -> None:
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _named("headgate-ca")
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    cert = (
        _builder(_named("headgate-apiserver"), ca_name, key.public_key(), now)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(host)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    # The CA's key is forgotten: nothing else is ever signed, so nothing else can be trusted by mistake.
    write_private(
        identity.key,
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
    write_private(identity.cert, cert.public_bytes(serialization.Encoding.PEM))
    write_private(identity.ca, ca.public_bytes(serialization.Encoding.PEM))


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
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
