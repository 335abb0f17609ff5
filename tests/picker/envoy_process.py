"""A real Envoy with an external processing filter, in front of endpoints on loopback addresses."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

DESTINATION = "x-gateway-destination-endpoint"
SUBSET_NAMESPACE, SUBSET_KEY = "envoy.lb.subset_hint", "x-gateway-destination-endpoint-subset"
PATIENCE_S = 30.0
_TYPE = "type.googleapis.com/envoy.extensions"
_NAME = "envoy.extensions"


def find():
    """The Envoy that tests use, as tools/fetch_envoy.sh looks for it; None if there is none."""
    if named := os.environ.get("HEADGATE_ENVOY") or shutil.which("envoy"):
        return named
    tool = Path(__file__).parents[2] / "tools" / "fetch_envoy.sh"
    path = Path(subprocess.run([tool, "--path"], capture_output=True, text=True, check=True).stdout.strip())
    return str(path) if (path.parents[1] / ".complete").exists() else None


def _address(host, port):
    return {"socket_address": {"address": host, "port_value": port}}


def _assigned(name, addresses):
    endpoints = [{"endpoint": {"address": _address(host, port)}} for host, port in addresses]
    return {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]}


def original_destination():
    """The cluster that connects to the address in the header, whatever it is."""
    return {
        "name": "pool",
        "type": "ORIGINAL_DST",
        "lb_policy": "CLUSTER_PROVIDED",
        "connect_timeout": "5s",
        "original_dst_lb_config": {"use_http_header": True, "http_header_name": DESTINATION},
    }


def override_host(addresses, *, by_metadata=False):
    """The cluster that tries the addresses it is told, in their order, and others if it is told none."""
    source = {"header": DESTINATION}
    if by_metadata:
        source = {"metadata": {"key": "envoy.lb", "path": [{"key": DESTINATION}]}}
    fallback = {
        "name": "envoy.load_balancing_policies.round_robin",
        "typed_config": {"@type": f"{_TYPE}.load_balancing_policies.round_robin.v3.RoundRobin"},
    }
    policy = {
        "name": "envoy.load_balancing_policies.override_host",
        "typed_config": {
            "@type": f"{_TYPE}.load_balancing_policies.override_host.v3.OverrideHost",
            "override_host_sources": [source],
            "fallback_policy": {"policies": [{"typed_extension_config": fallback}]},
        },
    }
    return {
        "name": "pool",
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_balancing_policy": {"policies": [{"typed_extension_config": policy}]},
        "load_assignment": _assigned("pool", addresses),
    }


def configuration(
    port,
    picker_port,
    pool,
    *,
    mode="FULL_DUPLEX_STREAMED",
    sends_responses=True,
    fails_open=False,
    retries=None,
    is_secure=False,
    tells=False,
):
    """One listener, whose filter asks the picker. `sends_responses`: also bodies of responses. `tells`: the
    client confines a request by the header x-subset, and learns the metadata that the picker has set."""
    body = "BUFFERED" if mode == "BUFFERED" else "FULL_DUPLEX_STREAMED"
    trailers = "SKIP" if mode == "BUFFERED" else "SEND"
    processing = {
        "@type": f"{_TYPE}.filters.http.ext_proc.v3.ExternalProcessor",
        "grpc_service": {"envoy_grpc": {"cluster_name": "picker"}, "timeout": "10s"},
        "failure_mode_allow": fails_open,
        "processing_mode": {
            "request_header_mode": "SEND",
            "request_body_mode": body,
            "request_trailer_mode": trailers,
            "response_header_mode": "SEND",
            "response_body_mode": body if sends_responses else "NONE",
            "response_trailer_mode": trailers if sends_responses else "SKIP",
        },
        "message_timeout": "1000s",
        "request_attributes": ["source.address"],
        "response_attributes": ["upstream.address"],
        "metadata_options": {
            "forwarding_namespaces": {"untyped": ["envoy.lb", "envoy.lb.subset_hint"]},
            "receiving_namespaces": {"untyped": ["envoy.lb"]},
        },
    }
    route = {"cluster": "pool", "timeout": "0s"}
    shown = {}
    before = []
    if tells:
        header = {"key": "x-metadata", "value": "%DYNAMIC_METADATA(envoy.lb)%"}
        shown = {"response_headers_to_add": [{"header": header}]}
        hint = {"metadata_namespace": SUBSET_NAMESPACE, "key": SUBSET_KEY}
        rules = {"request_rules": [{"header": "x-subset", "on_header_present": hint, "remove": True}]}
        typed = {"@type": f"{_TYPE}.filters.http.header_to_metadata.v3.Config", **rules}
        before = [{"name": "envoy.filters.http.header_to_metadata", "typed_config": typed}]
    if retries:
        route["retry_policy"] = {
            "retry_on": "connect-failure,refused-stream,retriable-status-codes"
        } | retries
    manager = {
        "@type": f"{_TYPE}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http",
        "route_config": {
            "virtual_hosts": [
                {
                    "name": "all",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "route": route, **shown}],
                }
            ]
        },
        "generate_request_id": False,
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "use_remote_address": True,
        "http_filters": [
            *before,
            {"name": "envoy.filters.http.ext_proc", "typed_config": processing},
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_TYPE}.filters.http.router.v3.Router"},
            },
        ],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    protocol = {
        "@type": f"{_TYPE}.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
    picker = {
        "name": "picker",
        "type": "STATIC",
        "connect_timeout": "1s",
        "typed_extension_protocol_options": {f"{_NAME}.upstreams.http.v3.HttpProtocolOptions": protocol},
        "load_assignment": _assigned("picker", [("127.0.0.1", picker_port)]),
    }
    if is_secure:  # as gateways connect to pickers: without verifying the certificate
        context = {"@type": f"{_TYPE}.transport_sockets.tls.v3.UpstreamTlsContext"}
        context["common_tls_context"] = {"alpn_protocols": ["h2"]}
        picker["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    listener = {
        "name": "http",
        "address": _address("127.0.0.1", port),
        "per_connection_buffer_limit_bytes": 32 << 20 if mode == "BUFFERED" else 1 << 20,
        "filter_chains": [{"filters": filters}],
    }
    return {"static_resources": {"listeners": [listener], "clusters": [pool, picker]}}


@contextlib.asynccontextmanager
async def running(envoy, directory, config):
    """An Envoy with this configuration, once it listens."""
    file = directory / "envoy.json"
    file.write_text(json.dumps(config, indent=1))
    port = config["static_resources"]["listeners"][0]["address"]["socket_address"]["port_value"]
    with (directory / "envoy.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(envoy, "--config-path", file, "--concurrency", "1", "--use-dynamic-base-id"),
            *("--log-level", "warning"),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not _listens(port):
                assert process.returncode is None, (directory / "envoy.log").read_text()
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _listens(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
