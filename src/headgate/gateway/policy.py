"""Which clients are believed and served, as the settings say: trusted networks, hosts, origins."""

from __future__ import annotations

from headgate.gateway import cors, hosts, trust
from headgate.gateway.settings import GatewaySettings


class ClientPolicy:
    """Made once from settings that have no conflicts."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.trusted = trust.Networks(settings.trusted_clients)
        self.hosts = hosts.Hosts(settings.allowed_hosts)
        self.cors: cors.Cors | None = None
        """None where pages of other origins may do nothing."""
        if settings.cors_origins:
            self.cors = cors.Cors(
                settings.cors_origins,
                methods=settings.cors_methods,
                headers=settings.cors_headers,
                max_age_s=settings.cors_max_age_s,
                credentials=settings.cors_credentials,
            )
