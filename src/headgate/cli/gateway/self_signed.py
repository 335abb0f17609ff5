"""A self-signed certificate for a first try: made once, and kept in the state directory."""

from __future__ import annotations

import datetime
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from headgate.serving import certificates

FOLDER = "tls"
"""In the state directory."""
_NAME = "headgate-gateway"
_ANY = ("", "0.0.0.0", "::")  # noqa: S104 - they are no names, but stand for all addresses
_RENEWED = datetime.timedelta(days=7)
"""A certificate that expires sooner is replaced."""


class Files(NamedTuple):
    """A certificate with its key, and the CA by which clients verify it."""

    cert: Path
    key: Path
    ca: Path
    fingerprint: str
    """SHA-256 of the certificate, as other tools show it."""
    host: str
    """The name by which a client on this machine can verify it; empty for that of the listener."""


def files(state: Path, host: str = "") -> Files:
    """The certificate for this machine and `host`, made if there is none that can be used. Raises OSError."""
    folder = state / FOLDER
    cert, key, ca = folder / "gateway.crt", folder / "gateway.key", folder / "ca.crt"
    names = list(_names(host))
    now = datetime.datetime.now(datetime.UTC)
    issued = _read(ca, cert, key)
    if issued is None or certificates.expires(issued, names, now + _RENEWED) is None:
        issued = certificates.issue(_NAME, names, now)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in ((ca, issued.ca), (cert, issued.cert), (key, issued.key)):
            _write(path, content)
    shown = certificates.fingerprint(issued.cert).upper()
    colons = ":".join(shown[at : at + 2] for at in range(0, len(shown), 2))
    return Files(cert, key, ca, colons, "localhost" if host in _ANY else "")


def _names(host: str) -> Iterable[str]:
    yield from ("localhost", "127.0.0.1", "::1", socket.gethostname())
    if host not in _ANY:
        yield host


def _read(ca: Path, cert: Path, key: Path) -> certificates.Issued | None:
    try:
        return certificates.Issued(ca.read_bytes(), cert.read_bytes(), key.read_bytes())
    except FileNotFoundError:
        return None


def _write(path: Path, content: bytes) -> None:
    """Replace a file at once; only its owner may read it."""
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
    new.replace(path)
