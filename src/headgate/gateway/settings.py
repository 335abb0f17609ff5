"""What a gateway process is told at its start."""

from __future__ import annotations

from pathlib import Path

import msgspec


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses, limits and times; times in seconds, sizes in bytes."""

    host: str = "127.0.0.1"
    port: int = 8080
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 9090
    admin_host: str = "127.0.0.1"
    admin_port: int = 8081
    kubeconfig: Path | None = None
    namespace: str | None = None
    """Objects of this namespace only; None is all."""

    max_head_bytes: int = 32 * 1024
    max_headers: int = 100
    max_body_bytes: int = 32 * 1024 * 1024
    max_pipelined: int = 16
    max_clients: int = 10_000
    """Client connections at a time."""
    max_clients_per_address: int = 0
    """Those of one client address; 0 is no limit, since behind a load balancer all have one address."""
    head_timeout_s: float = 30.0
    """How long a client may take for a request, from its first byte to its last."""
    keep_alive_s: float = 75.0
    """How long an idle client connection stays open."""
    write_buffer_bytes: int = 64 * 1024
    """Past this much unread by a client, its upstream is not read either."""

    connect_timeout_s: float = 5.0
    stream_idle_timeout_s: float = 600.0
    """An upstream that sends nothing for this long has failed."""
    max_response_head_bytes: int = 64 * 1024
    max_endpoint_connections: int = 1024
    """Connections to one endpoint, and so the requests that it has from this process at a time."""
    idle_connections: int = 256
    """Idle connections kept for each endpoint."""
    idle_connection_s: int = 4
    """How long: less than the 5 s after which uvicorn, and so vLLM and others, hang up."""
    ejection_failures: int = 5
    """So many failures in a row eject an endpoint from its pools for a while; 0 is never."""
    retries: int = 2
    """Retries on other endpoints where a pool does not say."""

    drain_s: float = 30.0
    """How long running requests may take after the signal to stop."""
    access_log: str = "text"
    """"text", "json" or "off"."""
