"""Section about TLS to clients."""

from __future__ import annotations

from typing import Annotated, Literal

from headgate.dataplane.settings.section import DAY_S, Section, setting


class Tls(Section, frozen=True):
    """TLS of the inference API: on as soon as there is a certificate."""

    cert_files: Annotated[
        tuple[str, ...],
        setting(
            "Certificate with its chain, in PEM form; changes are served at once. Several are chosen among "
            "by the host name that clients ask for.",
            live=False,
            flag="--tls-cert",
        ),
    ] = ()
    key_files: Annotated[
        tuple[str, ...],
        setting("Private key of each certificate, in the same order.", live=False, flag="--tls-key"),
    ] = ()
    secrets: Annotated[
        tuple[str, ...],
        setting(
            "Secrets of type kubernetes.io/tls with certificates, as NAMESPACE/NAME; changes are served at "
            "once.",
            live=False,
            flag="--tls-secret",
        ),
    ] = ()
    min_version: Annotated[
        Literal["1.2", "1.3"], setting("Oldest version of TLS that is accepted.", live=False)
    ] = "1.2"
    ciphers: Annotated[
        str,
        setting(
            "Cipher suites of TLS 1.2, in OpenSSL's notation; empty for ECDHE with AES-GCM or ChaCha20.",
            live=False,
        ),
    ] = ""
    http2: Annotated[bool, setting("Whether clients may use HTTP/2.", live=False)] = True
    client_certificates: Annotated[
        Literal["off", "optional", "required"],
        setting("Whether clients are asked for a certificate, and must have one.", live=False),
    ] = "off"
    client_ca_file: Annotated[
        str | None,
        setting("CA certificates that sign those of clients, in PEM form.", live=False),
    ] = None
    redirect_port: Annotated[
        int,
        setting(
            "Port whose HTTP requests are redirected to HTTPS; 0 opens none.", live=False, ge=0, le=65_535
        ),
    ] = 0
    hsts_max_age_s: Annotated[
        int,
        setting(
            "How long browsers must use HTTPS only (strict-transport-security); 0 sends no such header.",
            ge=0,
            le=int(DAY_S) * 730,
        ),
    ] = 0

    @property
    def is_on(self) -> bool:
        return bool(self.cert_files or self.secrets)
