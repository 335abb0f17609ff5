"""What settings say about TLS: files, requirements, and why they cannot be served."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from headgate import private_files
from headgate.gateway.settings.tls import Tls
from headgate.gateway.tls.certificates import CertificateError, Pair, load
from headgate.gateway.tls.contexts import Policy

MAX_FILE_BYTES: Final = 1 << 20


def read_files(cert: str, key: str) -> Pair:
    """The pair in two files. Raises CertificateError."""
    return Pair(f"{cert} with {key}", _read(cert), _read(key))


def _read(path: str) -> bytes:
    try:
        content = private_files.read(Path(path), MAX_FILE_BYTES + 1)
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error
    if len(content) > MAX_FILE_BYTES:
        raise CertificateError(f"{path}: longer than {MAX_FILE_BYTES} bytes")
    return content


def policy_of(told: Tls) -> Policy:
    """What the settings require of handshakes. Raises CertificateError if the CA file cannot be read."""
    authorities = ""
    if told.client_certificates != "off" and told.client_ca_file is not None:
        try:
            authorities = _read(told.client_ca_file).decode("ascii")
        except UnicodeDecodeError as error:
            raise CertificateError(f"{told.client_ca_file}: {error}") from error
    return Policy(told.min_version, told.ciphers, told.http2, authorities, told.client_certificates)


def problems(told: Tls) -> list[tuple[str, str]]:
    """Why TLS cannot be served as the settings say: path of the setting, and the reason."""
    if not told.is_on:
        needing = ("key_files", "client_ca_file", "redirect_port", "hsts_max_age_s")
        others = [name for name in needing if getattr(told, name)]
        if told.client_certificates != "off":  # otherwise everybody would be served, without TLS
            others.append("client_certificates")
        return [(f"tls.{name}", "without tls.cert_files or tls.secrets, there is no TLS") for name in others]
    if len(told.cert_files) != len(told.key_files):
        counts = f"{len(told.cert_files)} certificates and {len(told.key_files)} keys"
        return [("tls.key_files", f"{counts}: each certificate needs its key, in the same order")]
    found = [
        ("tls.secrets", f"{name!r}: a namespace and a name are needed, as in default/api-cert")
        for name in told.secrets
        if name.count("/") != 1 or not all(name.split("/"))
    ]
    if told.client_certificates != "off" and told.client_ca_file is None:
        found.append(("tls.client_ca_file", "tls.client_certificates needs the CA that signs them"))
    if told.client_certificates == "off" and told.client_ca_file is not None:
        why = "it has no effect while tls.client_certificates is off: set that to required or optional"
        found.append(("tls.client_ca_file", f"{why}, or remove this"))
    for cert, key in zip(told.cert_files, told.key_files, strict=True):
        try:
            load(read_files(cert, key))
        except CertificateError as error:
            found.append(("tls.cert_files", str(error)))
    try:
        Policy(told.min_version, told.ciphers).context()
    except ssl.SSLError as error:
        found.append(("tls.ciphers", f"OpenSSL rejects {told.ciphers!r}: {error}"))
    if told.client_certificates != "off" and told.client_ca_file is not None:
        try:
            policy_of(told).context()
        except (CertificateError, ssl.SSLError, ValueError) as error:
            found.append(("tls.client_ca_file", f"no certificates in PEM form: {error}"))
    return found
