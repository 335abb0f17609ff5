"""TLS with a given certificate, reloaded when its files change, or with a generated one."""

import asyncio
import datetime
import logging
import os
import ssl
import tempfile
from pathlib import Path

EVERY_S = 1.0
"""How often the files are checked."""

log = logging.getLogger(__name__)


class CertificateError(OSError):
    """The files are not a certificate with its key; the message says which, and why."""


class Certificate:
    """The TLS context for accepted connections."""

    def __init__(self, certfile: str, keyfile: str, *, lasts: bool = True) -> None:
        """Raises CertificateError. `lasts`: whether the files continue to exist after this call."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._files = (certfile, keyfile)
        self._lasts = lasts
        self._seen = self._look()
        self.reload()

    async def follow(self) -> None:
        """Reload the files when they change, until cancelled; a mismatched pair is ignored."""
        while self._lasts:
            await asyncio.sleep(EVERY_S)
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                try:
                    self.reload()
                except CertificateError as error:
                    log.warning("the certificate stays as it was: %s", error)

    def reload(self) -> None:
        """Use the current files for connections accepted from now on."""
        try:
            # Load into a throwaway context first: a certificate whose key does not match would stay in the
            # real one.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._files)
            self.context.load_cert_chain(*self._files)
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(f"cannot use {' with '.join(self._files)}: {error}") from error

    def _look(self) -> list[tuple[int, int]]:
        """What changes when the files change."""
        seen = []
        for file in self._files:
            try:
                status = os.stat(file)
            except OSError:
                seen.append((0, 0))
            else:
                seen.append((status.st_mtime_ns, status.st_ino))
        return seen


def self_signed(host: str) -> Certificate:
    """A certificate for `host` and localhost that nobody trusts, with a key that is not stored."""
    with tempfile.TemporaryDirectory() as directory:
        certfile, keyfile = Path(directory, "tls.crt"), Path(directory, "tls.key")
        cert, key = make(host)
        certfile.write_bytes(cert)
        keyfile.touch(mode=0o600)
        keyfile.write_bytes(key)
        return Certificate(str(certfile), str(keyfile), lasts=False)


def make(host: str) -> tuple[bytes, bytes]:
    """A new certificate with its issuing CA, and its key, in PEM."""
    from headgate.serving import certificates  # imports what most engines never need

    now = datetime.datetime.now(datetime.UTC)
    issued = certificates.issue("headgate-simulated-engine", ("localhost", host), now)
    return issued.cert + issued.ca, issued.key
