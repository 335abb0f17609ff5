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
    idle_connections: int = 256
    """Idle connections kept for each endpoint."""
    retries: int = 2
    """Retries on other endpoints where a pool does not say."""

    drain_s: float = 30.0
    """How long running requests may take after the signal to stop."""
    access_log: str = "text"
    """"text", "json" or "off"."""
