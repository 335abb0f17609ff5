"""The client policy in the settings: credentials, trusted networks, allowed hosts, CORS, forwarded paths."""

from __future__ import annotations

from typing import Final

from headgate.dataplane import trust
from headgate.dataplane.credentials.credentials import Credentials
from headgate.gateway import cors, hosts
from headgate.gateway.settings import GatewaySettings
from headgate.requests import paths

HSTS: Final = b"strict-transport-security: max-age="


class ClientPolicy:
    """Built from settings without conflicts."""

    def __init__(self, settings: GatewaySettings, credentials: Credentials | None = None) -> None:
        """`credentials` outlast changes of settings."""
        self.credentials = credentials or Credentials(settings.auth, settings.scheduling.content)
        self.trusted = trust.Networks(settings.clients.trusted_networks)
        self.hosts = hosts.Hosts(settings.clients.allowed_hosts)
        self.paths = paths.Paths(settings.clients.forwarded_paths)
        self.cors: cors.Cors | None = None
        """None if cross-origin requests are not allowed."""
        if settings.cors.origins:
            self.cors = cors.Cors(
                settings.cors.origins,
                methods=settings.cors.methods,
                headers=settings.cors.headers,
                max_age_s=settings.cors.max_age_s,
                credentials=settings.cors.credentials,
            )
        age_s = settings.tls.hsts_max_age_s
        self._hsts = b"%b%d\r\n" % (HSTS, age_s) if age_s else b""
        self.adds_lines = self.cors is not None or bool(self._hsts)
        """Whether responses have lines that `lines` returns."""

    def lines(self, origin: bytes, scheme: bytes) -> bytes:
        """Header lines of each response to a request of this origin ("" without one) over this scheme."""
        hsts = self._hsts if scheme == b"https" else b""
        if self.cors is None:
            return hsts
        return (self.cors.lines(origin) if origin else self.cors.unasked) + hsts
