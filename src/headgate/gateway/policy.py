"""Whom the settings trust and what they let pass: networks, hosts, origins of web pages, paths."""

from __future__ import annotations

from headgate.gateway import cors, hosts, trust
from headgate.gateway.settings import GatewaySettings
from headgate.requests import paths


class ClientPolicy:
    """Made once from settings that have no conflicts."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.trusted = trust.Networks(settings.clients.trusted_networks)
        self.hosts = hosts.Hosts(settings.clients.allowed_hosts)
        self.paths = paths.Paths(settings.clients.forwarded_paths)
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
