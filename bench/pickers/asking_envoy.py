"""Envoy with a picker: it asks for each request over external processing, in the mode of the Inference
Extension, and sends it to the address that it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pickers.addresses import DESTINATION, SUBSET_NAMESPACE

MANY = 1_000_000
_FILTERS = "type.googleapis.com/envoy.extensions.filters"
_HTTP2 = {
    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
}
FULL_DUPLEX = {
    "request_header_mode": "SEND",
    "request_body_mode": "FULL_DUPLEX_STREAMED",
    "request_trailer_mode": "SEND",
    "response_header_mode": "SEND",
    "response_body_mode": "FULL_DUPLEX_STREAMED",
    "response_trailer_mode": "SEND",
}
BUFFERED = {
    "request_header_mode": "SEND",
    "request_body_mode": "BUFFERED",
    "response_header_mode": "SEND",
    "response_body_mode": "NONE",
}
"""Envoy keeps the request's body until the picker has responded, and so can go on without the picker."""
Addresses = list[tuple[str, int]]


class Listening(NamedTuple):
    """One listener, and how it asks the picker."""

    port: int
    mode: Mapping[str, str] | None = None
    """None for a listener that balances by itself."""
    fails_open: bool = False
    """Whether requests are balanced over all engines while no picker responds."""
    timeout_s: float = 10.0
    """For each response of the picker."""


def configuration(
    listeners: Sequence[Listening],
    pickers: Addresses,
    engines: Addresses,
    log: Path,
    checks_health: bool = False,
) -> dict[str, Any]:
    """Of an Envoy on this machine. `checks_health`: ask only pickers that say that they are ready."""
    chosen = any(each.mode is not None for each in listeners)
    clusters = [_cluster("engines", engines)]
    if chosen:
        clusters[0] |= _OVERRIDDEN if checks_health else _CHOSEN
        if not checks_health:
            del clusters[0]["load_assignment"]
        clusters.append(_pickers(pickers, checks_health))
    return {
        "static_resources": {"listeners": [_listener(each, log) for each in listeners], "clusters": clusters}
    }


def _listener(listening: Listening, log: Path) -> dict[str, Any]:
    filters = [] if listening.mode is None else [_external_processing(listening)]
    filters.append({"name": "router", "typed_config": {"@type": f"{_FILTERS}.http.router.v3.Router"}})
    route = {"match": {"prefix": "/"}, "route": {"cluster": "engines", "timeout": "0s"}}
    manager = {
        "@type": f"{_FILTERS}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bench",
        "access_log": [
            {
                "name": "file",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                    "path": str(log),
                },
            }
        ],
        "http_filters": filters,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
    }
    return {
        "name": f"port-{listening.port}",
        "address": _address("127.0.0.1", listening.port),
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }


def _external_processing(listening: Listening) -> dict[str, Any]:
    timeout = f"{listening.timeout_s:g}s"
    return {
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": f"{_FILTERS}.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}, "timeout": timeout},
            "message_timeout": timeout,
            "failure_mode_allow": listening.fails_open,
            "processing_mode": listening.mode,
            "metadata_options": {"receiving_namespaces": {"untyped": [SUBSET_NAMESPACE]}},
            "mutation_rules": {"allow_all_routing": True},
        },
    }


def _pickers(addresses: Addresses, checks_health: bool) -> dict[str, Any]:
    made = _cluster("picker", addresses) | {"typed_extension_protocol_options": _HTTP2}
    if checks_health:
        made["health_checks"] = [
            {
                "timeout": "1s",
                "interval": "0.25s",
                "no_traffic_interval": "0.25s",
                "unhealthy_threshold": 1,
                "healthy_threshold": 1,
                "grpc_health_check": {},
            }
        ]
        made["common_lb_config"] = {"healthy_panic_threshold": {"value": 0}}
    return made


_CHOSEN: Final[dict[str, Any]] = {
    "type": "ORIGINAL_DST",
    "lb_policy": "CLUSTER_PROVIDED",
    "original_dst_lb_config": {"use_http_header": True, "http_header_name": DESTINATION},
}
"""Requests go to the address in a header that the picker sets."""
_POLICIES: Final = "type.googleapis.com/envoy.extensions.load_balancing_policies"
_OVERRIDDEN: Final[dict[str, Any]] = {
    "load_balancing_policy": {
        "policies": [
            {
                "typed_extension_config": {
                    "name": "envoy.load_balancing_policies.override_host",
                    "typed_config": {
                        "@type": f"{_POLICIES}.override_host.v3.OverrideHost",
                        "override_host_sources": [{"header": DESTINATION}],
                        "fallback_policy": {
                            "policies": [
                                {
                                    "typed_extension_config": {
                                        "name": "envoy.load_balancing_policies.round_robin",
                                        "typed_config": {"@type": f"{_POLICIES}.round_robin.v3.RoundRobin"},
                                    }
                                }
                            ]
                        },
                    },
                }
            }
        ]
    }
}
"""The same, but requests without it are balanced."""


def _cluster(name: str, addresses: Addresses) -> dict[str, Any]:
    endpoints = [{"endpoint": {"address": _address(*each)}} for each in addresses]
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": _unlimited(),
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
    }


def _unlimited() -> dict[str, Any]:
    return {"thresholds": [{"max_connections": MANY, "max_requests": MANY, "max_pending_requests": MANY}]}


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}
