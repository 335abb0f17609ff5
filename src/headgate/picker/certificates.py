"""The certificate of the picker: from a directory, read again when it changes, or self-signed."""

from __future__ import annotations

import asyncio
import datetime
import logging
import socket
import ssl
from pathlib import Path

from headgate import private_files, rpc
from headgate.picker.settings import Listening
from headgate.serving import certificates

log = logging.getLogger(__name__)

CERTIFICATE, KEY = "tls.crt", "tls.key"
MAX_FILE_BYTES = 1 << 20
_NAME = "headgate-picker"


class CertificateError(Exception):
    """The certificate cannot be used; the message names the file."""


def _read(path: Path) -> bytes:
    return private_files.read(path, MAX_FILE_BYTES)


class Certificates:
    """A TLS context whose certificate follows the files. Raises CertificateError."""

    def __init__(self, listening: Listening) -> None:
        self.context = rpc.tls.for_server(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        if listening.tls_min_version == "1.3":
            self.context.minimum_version = ssl.TLSVersion.TLSv1_3
        if listening.tls_ciphers:
            self.context.set_ciphers(":".join(listening.tls_ciphers))
        self._listening = listening
        self._read: tuple[bytes, bytes] | None = None
        if listening.cert_path:
            self._load()
        else:
            hosts = [_NAME, socket.gethostname(), "localhost", "127.0.0.1"]
            now = datetime.datetime.now(datetime.UTC)
            certificates.load(self.context, certificates.issue(_NAME, hosts, now))

    def _load(self) -> None:
        """Use the files as they are now, if they have changed."""
        folder = Path(self._listening.cert_path)
        try:
            found = _read(folder / CERTIFICATE), _read(folder / KEY)
        except OSError as error:
            raise CertificateError(f"--cert-path: {error.filename}: {error.strerror}") from error
        if found == self._read:
            return
        issued = certificates.Issued(b"", *found)
        if not certificates.is_accepted(issued):
            told = f"{CERTIFICATE} and {KEY} are not a certificate in PEM and its key, without a password"
            raise CertificateError(f"--cert-path: {folder}: {told}")
        certificates.load(self.context, issued)
        if self._read is not None:
            log.info("serving the new certificate of %s", folder)
        self._read = found

    async def follow(self) -> None:
        """Read the files again and again. Without a directory, or with an interval of 0, there is nothing to
        read."""
        if not self._listening.cert_path or not self._listening.reload_s:
            return
        logged = ""
        while True:
            await asyncio.sleep(self._listening.reload_s)
            try:
                self._load()
                logged = ""
            except CertificateError as error:  # a file may be half written
                if str(error) != logged:
                    log.warning("the previous certificate stays in use: %s", error)
                logged = str(error)
