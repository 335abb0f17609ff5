"""What to read from which server: an endpoint's engine, the address of its page, and how to connect."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from headgate import engines, routing
from headgate.observe.settings import Settings


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One endpoint to read. Equal targets are read in the same way."""

    endpoint: routing.Endpoint
    engine: engines.Engine
    page_port: int
    page_path: str
    page_tls: routing.Tls | None
    """How to verify the server of the page; None for plain HTTP."""
    tls: routing.Tls | None
    """How to verify the endpoint itself, which has the list of models."""
    http2: bool
    """Whether the endpoint speaks HTTP/2; a page on another port uses HTTP/1.1."""


def targets(pools: Iterable[routing.Pool], settings: Settings) -> dict[routing.Endpoint, Target]:
    """Each endpoint of the pools once, as configured by the first pool that has it."""
    found: dict[routing.Endpoint, Target] = {}
    for pool in pools:
        for endpoint in pool.endpoints:
            if endpoint not in found:
                found[endpoint] = _target(pool, endpoint, settings)
    return found


def _target(pool: routing.Pool, endpoint: routing.Endpoint, settings: Settings) -> Target:
    page = pool.metrics_pages.get(endpoint, routing.MetricsPage())
    engine = engines.of_pod(pool.labels.get(endpoint, {}), pool.engine)
    own_port = engine.metrics.port if engine.metrics is not None else 0
    port = page.port or settings.port or own_port or endpoint.port
    is_https = page.is_https
    if is_https is None:
        is_https = pool.tls is not None and port == endpoint.port
    return Target(
        endpoint=endpoint,
        engine=engine,
        page_port=port,
        # A page on another port is that of the engine itself, not of the proxy in front of it.
        page_path=(endpoint.prefix if port == endpoint.port else "") + (page.path or settings.path),
        page_tls=(pool.tls or routing.Tls()) if is_https else None,
        tls=pool.tls,
        http2=pool.http2,
    )
