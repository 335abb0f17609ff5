"""The server's own certificate authority, server certificate and token: created once, then reused."""

from __future__ import annotations

import base64
import datetime
import secrets
import ssl
from dataclasses import dataclass
from pathlib import Path

import yaml

from headgate import private_files
from headgate.serving import certificates

RENEW_BEFORE_DAYS = 30
HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Identity:
    """Files of the server's identity, all with mode 0600 in one directory."""

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
    """The identity in `directory`, recreated if it is missing, expires soon, or does not cover `host`."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    identity = Identity(
        directory / "ca.crt", directory / "server.crt", directory / "server.key", _token(directory / "token")
    )
    if not _usable(identity, host, now):
        _make(identity, host, now)
    return identity


def kubeconfig(identity: Identity, url: str) -> bytes:
    """A kubeconfig for the administrator, including CA and token."""
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
    """Write a kubeconfig for another user: address and CA of the server's own one, with this token."""
    config = yaml.safe_load(own.read_bytes())
    cluster = config["clusters"][0]["name"]
    config["users"] = [{"name": name, "user": {"token": token}}]
    context = {"cluster": cluster, "user": name, "namespace": "default"}
    config["contexts"] = [{"name": name, "context": context}]
    config["current-context"] = name
    private_files.write(path, yaml.safe_dump(config, sort_keys=False).encode())


def _token(path: Path) -> str:
    if path.exists() and (token := path.read_text().strip()):
        return token
    token = secrets.token_urlsafe(32)
    private_files.write(path, token.encode())
    return token


def _usable(identity: Identity, host: str, now: datetime.datetime) -> bool:
    if not (identity.ca.exists() and identity.cert.exists() and identity.key.exists()):
        return False
    issued = certificates.Issued(
        identity.ca.read_bytes(), identity.cert.read_bytes(), identity.key.read_bytes()
    )
    end = certificates.expires(issued, (*HOSTS, host), now)
    return end is not None and end > now + datetime.timedelta(days=RENEW_BEFORE_DAYS)


def _make(identity: Identity, host: str, now: datetime.datetime) -> None:
    issued = certificates.issue("headgate-apiserver", (*HOSTS, host), now)
    private_files.write(identity.key, issued.key)
    private_files.write(identity.cert, issued.cert)
    private_files.write(identity.ca, issued.ca)
