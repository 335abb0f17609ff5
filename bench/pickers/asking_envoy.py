"""Envoy with a picker: it asks for each request over external processing, in the mode of the Inference
Extension, and sends it to the address that it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def configuration(port: int, picker: int | None, engines: list[tuple[str, int]], log: Path) -> dict[str, Any]:
    """Of an Envoy that listens on `port` of this machine. Without a picker, it balances by itself."""
    filters = [] if picker is None else [_external_processing()]
    filters.append({"name": "router", "typed_config": {"@type": f"{_FILTERS}.http.router.v3.Router"}})
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
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "engines", "timeout": "0s"}}],
                }
            ]
        },
    }
    listener = {
        "name": "bench",
        "address": _address("127.0.0.1", port),
        "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
    }
    clusters = [_balanced(engines) if picker is None else _chosen()]
    if picker is not None:
        clusters.append(
            _cluster("picker", [("127.0.0.1", picker)]) | {"typed_extension_protocol_options": _HTTP2}
        )
    return {"static_resources": {"listeners": [listener], "clusters": clusters}}


def _external_processing() -> dict[str, Any]:
    return {
        "name": "envoy.filters.http.ext_proc",
        "typed_config": {
            "@type": f"{_FILTERS}.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}, "timeout": "10s"},
            "message_timeout": "10s",
            "failure_mode_allow": False,
            "processing_mode": FULL_DUPLEX,
            "metadata_options": {"receiving_namespaces": {"untyped": [SUBSET_NAMESPACE]}},
            "mutation_rules": {"allow_all_routing": True},
        },
    }


def _chosen() -> dict[str, Any]:
    """The cluster whose destination is a header that the picker sets."""
    return {
        "name": "engines",
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "5s",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": DESTINATION},
        "circuit_breakers": _unlimited(),
    }


def _balanced(engines: list[tuple[str, int]]) -> dict[str, Any]:
    return _cluster("engines", engines)


def _cluster(name: str, addresses: list[tuple[str, int]]) -> dict[str, Any]:
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
