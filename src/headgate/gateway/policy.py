"""The client policy in the settings: credentials, trusted networks, allowed hosts, CORS, forwarded paths."""

from __future__ import annotations

from headgate.dataplane import trust
from headgate.dataplane.credentials.credentials import Credentials
from headgate.gateway import cors, hosts
from headgate.gateway.settings import GatewaySettings
from headgate.requests import paths


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
