"""Names that settings had before they were nested in sections.

Files and flags may still use them, with a warning. Workers and supervisors of older versions also use them
during an upgrade.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headgate.gateway.settings import GatewaySettings

RENAMED = {
    "host": "listen.host",
    "port": "listen.port",
    "metrics_host": "metrics.host",
    "metrics_port": "metrics.port",
    "admin_host": "admin.host",
    "admin_port": "admin.port",
    "workers": "workers.count",
    "worker_hang_s": "workers.hang_s",
    "kubeconfig": "kubernetes.kubeconfig",
    "namespace": "kubernetes.namespaces",
    "max_head_bytes": "clients.max_head_bytes",
    "max_headers": "clients.max_headers",
    "max_body_bytes": "clients.max_body_bytes",
    "max_pipelined": "clients.max_pipelined",
    "max_clients": "clients.max_connections",
    "max_clients_per_address": "clients.max_connections_per_address",
    "head_timeout_s": "clients.receive_timeout_s",
    "min_body_bytes_per_s": "clients.min_body_bytes_per_s",
    "keep_alive_s": "clients.keep_alive_s",
    "trusted_clients": "clients.trusted_networks",
    "allowed_hosts": "clients.allowed_hosts",
    "cors_origins": "cors.origins",
    "cors_methods": "cors.methods",
    "cors_headers": "cors.headers",
    "cors_max_age_s": "cors.max_age_s",
    "cors_credentials": "cors.credentials",
    "write_buffer_bytes": "clients.write_buffer_bytes",
    "connect_timeout_s": "endpoints.connect_timeout_s",
    "response_timeout_s": "endpoints.response_timeout_s",
    "stream_response_timeout_s": "endpoints.stream_response_timeout_s",
    "stream_idle_timeout_s": "endpoints.stream_idle_timeout_s",
    "hang_s": "endpoints.hang_s",
    "max_response_head_bytes": "endpoints.max_response_head_bytes",
    "max_endpoint_connections": "endpoints.max_connections",
    "idle_connections": "endpoints.max_idle_connections",
    "idle_connection_s": "endpoints.keep_alive_s",
    "ejection_failures": "endpoints.ejection_failures",
    "engine_metrics": "engine_metrics.enabled",
    "engine_metrics_interval_s": "engine_metrics.interval_s",
    "engine_metrics_quick_s": "engine_metrics.busy_interval_s",
    "engine_metrics_per_s": "engine_metrics.max_per_s",
    "engine_metrics_stale_s": "engine_metrics.stale_s",
    "engine_metrics_timeout_s": "engine_metrics.timeout_s",
    "engine_metrics_path": "engine_metrics.path",
    "engine_metrics_port": "engine_metrics.port",
    "retries": "endpoints.retries",
    "flow_control": "queue.enabled",
    "no_endpoint_wait_s": "queue.no_endpoint_wait_s",
    "queue_ttl_s": "queue.ttl_s",
    "queue_detector": "queue.detector",
    "queue_target_s": "queue.target_s",
    "queue_max_in_flight": "queue.max_in_flight",
    "queue_max_requests": "queue.max_requests",
    "queue_max_bytes": "queue.max_bytes",
    "queue_band_max_requests": "queue.band_max_requests",
    "queue_band_max_bytes": "queue.band_max_bytes",
    "queue_fairness": "queue.fairness",
    "queue_order": "queue.order",
    "queue_weights": "queue.weights",
    "queue_floor_share": "queue.floor_share",
    "queue_promote_after_s": "queue.promote_after_s",
    "queue_evicts": "queue.evict_running",
    "objectives": "queue.objectives_from",
    "fairness_ids": "queue.fairness_ids_from",
    "tenant_header": "queue.tenant_header",
    "remote_prefill_tokens": "prefill.remote_min_tokens",
    "rate_limit_strict": "rate_limits.strict",
    "rate_limit_wait_s": "rate_limits.wait_s",
    "rate_limit_gateways": "rate_limits.gateways",
    "redis_hosts": "rate_limits.redis_hosts",
    "redis_tls": "rate_limits.redis_tls",
    "redis_ca_file": "rate_limits.redis_ca_file",
    "lameduck_s": "shutdown.lameduck_s",
    "drain_s": "shutdown.drain_s",
    "retire_s": "shutdown.retire_s",
    "scheduler": "scheduling.policy",
    "scheduler_config": "scheduling.config_file",
    "allow_experimental_plugins": "scheduling.allow_experimental_plugins",
    "access_log": "logging.access_log",
    "begin_traces": "tracing.sample_ratio",
    "log_level": "logging.level",
}
"""From the old name to the current path."""

_DERIVED = {"scheduling": "scheduling.content", "kthena_environment": "queue.kthena_environment"}


_NAMESPACES = "kubernetes.namespaces"
_ONE_NAMESPACE = ("namespace", "kubernetes.namespace")
"""Older versions have one namespace or none, as a text, under these names."""


def with_old_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by path, and also by the names that an older version reads."""
    old = {name: values[path] for name, path in (RENAMED | _DERIVED).items() if path in values}
    if _NAMESPACES in values:
        first = next(iter(values[_NAMESPACES]), None)
        old |= dict.fromkeys(_ONE_NAMESPACE, first)
    return {**values, **old}


def from_any_version(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by path, from values of any version by path or by old name. Unknown names are ignored."""
    known = GatewaySettings().by_path()
    old = {path: values[name] for name, path in (RENAMED | _DERIVED).items() if name in values}
    for name in _ONE_NAMESPACE:
        if name in values:
            old[_NAMESPACES] = as_list(values[name])
    return old | {path: value for path, value in values.items() if path in known}


def as_list(value: Any) -> Any:
    """The value of a setting that is a list now, and was a text before."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else value
