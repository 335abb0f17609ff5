"""Which clients are believed and served, as the settings say: trusted networks, hosts, origins."""

from __future__ import annotations

from headgate.gateway import cors, hosts, trust
from headgate.gateway.settings import GatewaySettings


class ClientPolicy:
    """Made once from settings that have no conflicts."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.trusted = trust.Networks(settings.clients.trusted_networks)
        self.hosts = hosts.Hosts(settings.clients.allowed_hosts)
        self.cors: cors.Cors | None = None
        """None where pages of other origins may do nothing."""
        if settings.cors.origins:
            self.cors = cors.Cors(
                settings.cors.origins,
                methods=settings.cors.methods,
                headers=settings.cors.headers,
                max_age_s=settings.cors.max_age_s,
                credentials=settings.cors.credentials,
            )
