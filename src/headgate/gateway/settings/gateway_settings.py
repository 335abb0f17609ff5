"""All settings of a gateway: the sections, and a value by its path or key."""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from headgate.dataplane.settings.auth import Auth
from headgate.dataplane.settings.endpoints import Endpoints, EngineMetrics, Prefill, Scheduling
from headgate.dataplane.settings.flow import Queue, RateLimits
from headgate.dataplane.settings.peers import Peers
from headgate.dataplane.settings.providers import Providers
from headgate.dataplane.settings.serving import (
    Admin,
    Kubernetes,
    Listen,
    Logging,
    Metrics,
    Shutdown,
    Workers,
)
from headgate.dataplane.settings.tracing import Tracing
from headgate.gateway.settings.clients import Clients, Cors
from headgate.gateway.settings.gateway_api import GatewayApi
from headgate.gateway.settings.objects import Objects
from headgate.gateway.settings.tls import Tls


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a gateway, the same for each of its workers."""

    listen: Listen = Listen()
    metrics: Metrics = Metrics()
    admin: Admin = Admin()
    workers: Workers = Workers()
    kubernetes: Kubernetes = Kubernetes()
    objects: Objects = Objects()
    gateway_api: GatewayApi = GatewayApi()
    tls: Tls = Tls()
    clients: Clients = Clients()
    auth: Auth = Auth()
    cors: Cors = Cors()
    endpoints: Endpoints = Endpoints()
    engine_metrics: EngineMetrics = EngineMetrics()
    queue: Queue = Queue()
    prefill: Prefill = Prefill()
    rate_limits: RateLimits = RateLimits()
    peers: Peers = Peers()
    providers: Providers = Providers()
    shutdown: Shutdown = Shutdown()
    scheduling: Scheduling = Scheduling()
    logging: Logging = Logging()
    tracing: Tracing = Tracing()

    def replace(self, **values: Any) -> GatewaySettings:
        """A copy with other values, by key: `settings.replace(clients_max_body_bytes=1024)`.

        Values are not checked. Raises KeyError for a key that does not exist."""
        sections: dict[str, dict[str, Any]] = {}
        for key, value in values.items():
            section, _, name = paths()[key].partition(".")
            sections.setdefault(section, {})[name] = value
        changed = {
            section: msgspec.structs.replace(getattr(self, section), **named)
            for section, named in sections.items()
        }
        return msgspec.structs.replace(self, **changed)

    def by_path(self) -> dict[str, Any]:
        """Every value, derived ones included, under its path."""
        return {
            f"{section}.{name}": getattr(getattr(self, section), name)
            for section in self.__struct_fields__
            for name in getattr(self, section).__struct_fields__
        }


@functools.cache
def paths() -> dict[str, str]:
    """The path of each setting and derived value, by its key."""
    return {path.replace(".", "_"): path for path in GatewaySettings().by_path()}


def changes(old: GatewaySettings, new: GatewaySettings) -> dict[str, tuple[Any, Any]]:
    """The settings that differ, by path: the old value and the new one."""
    before, after = old.by_path(), new.by_path()
    return {path: (before[path], after[path]) for path in before if before[path] != after[path]}
