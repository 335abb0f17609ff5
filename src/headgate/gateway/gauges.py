"""Metrics that are read from the state of the gateway at scrape time."""

from __future__ import annotations

from collections import Counter as Tally
from typing import TYPE_CHECKING

from headgate import peers
from headgate.dataplane import gauges
from headgate.dataplane.records.recorder import PREFIX
from headgate.quota import metrics as quota_metrics
from headgate.telemetry import Gauge, Registry

if TYPE_CHECKING:
    from headgate.gateway.shell import Shell

_Samples = list[tuple[tuple[str, ...], float]]


def add_gauges(registry: Registry, shell: Shell) -> None:
    """Add the metrics that always have a value, even without requests."""
    read = _Reader(shell)
    quota_metrics.add_metrics(registry, shell.plane.routes.limits, shell.services.limit_sources, shell.now)
    gauges.add_gauges(registry, shell, PREFIX)
    peers.add_metrics(registry, shell.peering.peers, shell.now, PREFIX)
    prefix = PREFIX
    registry.add(
        Gauge(
            f"{prefix}_listener_ports",
            "Ports of Gateways' listeners, summed over workers: `open`, or `failed` if the port cannot be "
            "opened; see gateway_ports in /debug/config.",
            ("state",),
            read.listener_ports,
        ),
        Gauge(
            f"{prefix}_client_connections",
            "Open client connections; each request in progress over HTTP/2 counts as one.",
            (),
            read.clients,
        ),
        shell.clients.handshakes.counted,
        Gauge(
            f"{prefix}_tls_certificate_expiry_timestamp_seconds",
            "When a certificate of the inference API expires.",
            ("source",),
            read.certificate_expiries,
            over="max",
        ),
        Gauge(
            f"{prefix}_tls_certificate_valid",
            "Whether the present content of a file or Secret is served; if not, the last valid one is.",
            ("source",),
            read.certificate_validity,
            over="max",
        ),
        Gauge(
            f"{prefix}_provider_usable",
            "Whether an external provider has a valid key, and fallbacks may use it; /debug/config says why "
            "not.",
            ("provider",),
            read.providers,
            over="max",
        ),
        Gauge(
            f"{prefix}_providers_valid",
            "Whether the present content of the file of external providers is in effect; if not, the last "
            "valid one is.",
            (),
            read.providers_file,
            over="max",
        ),
        Gauge(
            f"{prefix}_held_body_bytes",
            "Bytes of request bodies in memory; clients.max_bodies_bytes limits them per worker.",
            (),
            read.body_bytes,
        ),
        Gauge(f"{prefix}_active_requests", "Requests in progress.", ("pool",), read.requests),
        Gauge(f"{prefix}_active_streams", "Streamed requests in progress.", ("pool",), read.streams),
        Gauge(
            f"{prefix}_endpoint_connections",
            "Open connections to an endpoint; state is busy (a request is served on it) or idle.",
            ("endpoint", "state"),
            read.endpoint_connections,
        ),
    )


class _Reader:
    """Returns the samples of each metric."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def clients(self) -> _Samples:
        return [((), len(self._shell.clients))]

    def certificate_expiries(self) -> _Samples:
        certificates = self._shell.clients.certificates
        return certificates.expiries() if certificates is not None else []

    def certificate_validity(self) -> _Samples:
        certificates = self._shell.clients.certificates
        return certificates.validity() if certificates is not None else []

    def providers(self) -> _Samples:
        found = self._shell.plane.providers
        unusable = [name for name in found.troubles if name]
        return [((name,), float(name in found.by_name)) for name in (*found.by_name, *unusable)]

    def providers_file(self) -> _Samples:
        providers = self._shell.services.providers
        return [((), float(providers.is_valid))] if providers.has_file else []

    def body_bytes(self) -> _Samples:
        return [((), self._shell.services.bodies.held)]

    def listener_ports(self) -> _Samples:
        states = list(self._shell.gateways.ports.values())
        failed = sum(map(bool, states))
        return [(("open",), len(states) - failed), (("failed",), failed)] if states else []

    def requests(self) -> _Samples:
        return self._active(streams_only=False)

    def streams(self) -> _Samples:
        return self._active(streams_only=True)

    def _active(self, *, streams_only: bool) -> _Samples:
        found = Tally({pool.name: 0 for pool in self._shell.plane.pools.values()})
        for client in self._shell.clients.all:
            exchange = client.exchange
            if exchange is None or exchange.life.pool is None:
                continue
            if exchange.life.decision.stream or not streams_only:
                found[exchange.life.pool.name] += 1
        return [((pool,), count) for pool, count in found.items()]

    def endpoint_connections(self) -> _Samples:
        found: Tally[tuple[str, ...]] = Tally()
        for each in self._shell.all_connections():
            counts = each.statistics()
            found[each.endpoint.name, "idle"] += counts["idle"]
            found[each.endpoint.name, "busy"] += counts["open"] - counts["idle"]
        return list(found.items())
