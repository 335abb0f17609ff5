"""The node's serving certificate, and the authorities whose client certificates it accepts.

All of them can be replaced while the node runs: files and the ConfigMap are read again every minute, and each
connection uses the newest.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate import api, cluster
from headgate.serving import certificates as issuing

log = logging.getLogger(__name__)

REFRESH_S = 60.0
RENEW_AFTER_S = 365 * 86400.0
"""Age at which a self-signed certificate is replaced."""
CONFIG_MAP = "extension-apiserver-authentication"
CONFIG_MAP_NAMESPACE = "kube-system"
CONFIG_MAP_KEY = "client-ca-file"
_CONFIG_MAPS = api.Resource("", "v1", "ConfigMap", "configmaps", True)


@dataclass(frozen=True)
class TlsFiles:
    """Files in PEM."""

    certificate: Path | None = None
    key: Path | None = None
    """Of the node's certificate; without them, it signs its own."""
    client_ca: Path | None = None
    """Authorities of client certificates; None for those that the API server publishes."""


class Certificates:
    """Has a context after the first `refresh`; `run` refreshes it until cancelled."""

    def __init__(
        self, files: TlsFiles, client: cluster.Client, directory: Path, names: Sequence[str]
    ) -> None:
        """`directory`: for a self-signed certificate, which is for `names`."""
        self._files = files
        self._client = client
        self._names = names
        self._own = TlsFiles(directory / "kubelet.crt", directory / "kubelet.key")
        self._issued_at: datetime.datetime | None = None
        self._loaded: tuple[bytes, bytes, str] | None = None
        self._context: ssl.SSLContext | None = None
        self._has_authorities = True

    @property
    def context(self) -> ssl.SSLContext:
        assert self._context is not None
        return self._context

    async def run(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            try:
                await self.refresh()
            except (cluster.ConfigurationError, cluster.ApiError) as error:
                log.warning("the previous certificates of the node's API stay in use: %s", error)

    async def refresh(self) -> None:
        """Load what has changed. Raises ConfigurationError, naming the file, and cluster.ApiError."""
        serving = self._files if self._files.certificate else self._own_files()
        assert serving.certificate is not None
        assert serving.key is not None
        authorities = await self._authorities()
        loaded = (_bytes(serving.certificate), _bytes(serving.key), authorities)
        if loaded != self._loaded:
            self._context = _context(serving.certificate, serving.key, authorities, self._files.client_ca)
            self._loaded = loaded

    def _own_files(self) -> TlsFiles:
        now = datetime.datetime.now(datetime.UTC)
        if self._issued_at is None or (now - self._issued_at).total_seconds() > RENEW_AFTER_S:
            issued = issuing.issue(self._names[0], self._names, now)
            assert self._own.certificate is not None
            assert self._own.key is not None
            _write_private(self._own.key, issued.key)
            _write_private(self._own.certificate, issued.cert)
            self._issued_at = now
        return self._own

    async def _authorities(self) -> str:
        if self._files.client_ca is not None:
            return _bytes(self._files.client_ca).decode("ascii", "replace")
        try:
            found = await self._client.get_manifest(_CONFIG_MAPS, CONFIG_MAP, CONFIG_MAP_NAMESPACE)
            authorities = str((found.get("data") or {}).get(CONFIG_MAP_KEY) or "")
            why = f"it has no {CONFIG_MAP_KEY}"
        except (cluster.NotFound, cluster.Forbidden) as error:
            authorities, why = "", str(error)
        if not authorities and self._has_authorities:
            log.warning(
                "the API server's client certificate cannot be checked, so kubectl logs, exec and "
                "port-forward fail: ConfigMap %s/%s: %s; give --client-ca-file",
                *(CONFIG_MAP_NAMESPACE, CONFIG_MAP, why),
            )
        self._has_authorities = bool(authorities)
        return authorities


def _context(certificate: Path, key: Path, authorities: str, source: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.num_tickets = 0  # a resumed session would skip the check of a certificate
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise cluster.ConfigurationError(
            f"--tls-cert-file {certificate} and --tls-private-key-file {key} are no certificate in PEM with "
            f"its key: {error}"
        ) from error
    if authorities:
        try:
            context.load_verify_locations(cadata=authorities)
        except (ValueError, ssl.SSLError) as error:
            origin = f"--client-ca-file {source}" if source else f"ConfigMap {CONFIG_MAP}, {CONFIG_MAP_KEY},"
            raise cluster.ConfigurationError(f"{origin} has no certificates in PEM: {error}") from error
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise cluster.ConfigurationError(f"{path} cannot be read: {error.strerror}") from error


def _write_private(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(data)
