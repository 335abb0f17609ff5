"""Converts the settings of a process to those of other rooms."""

from __future__ import annotations

from headgate import fleet, observe, quota
from headgate.dataplane import trust
from headgate.dataplane.settings import DataPlaneSettings
from headgate.quota.patience import TIME_TO_ASK_AGAIN
from headgate.requests.rules import Rules


def rules_of(settings: DataPlaneSettings) -> Rules:
    """Equal settings make equal rules."""
    endpoints, scheduling = settings.endpoints, settings.scheduling
    return Rules(
        max_requests=endpoints.max_connections,
        retries=endpoints.retries,
        response_timeout_s=endpoints.response_timeout_s,
        stream_response_timeout_s=endpoints.stream_response_timeout_s,
        idle_timeout_s=endpoints.stream_idle_timeout_s,
        remote_min_tokens=settings.prefill.remote_min_tokens,
        ask_tokens_again_s=settings.rate_limits.wait_s * TIME_TO_ASK_AGAIN,
        believes_objectives=trust.believes(settings.queue.objectives_from, is_trusted=False),
        policy=scheduling.policy,
        plan=scheduling.content,
        allow_experimental_plugins=scheduling.allow_experimental_plugins,
    )


def ejection_policy(settings: DataPlaneSettings) -> fleet.EjectionPolicy:
    """When endpoints are ejected."""
    return fleet.EjectionPolicy(
        failures=settings.endpoints.ejection_failures,
        most_percent=settings.endpoints.max_ejection_percent,
        hang_s=settings.endpoints.hang_s,
    )


def quota_settings(settings: DataPlaneSettings) -> quota.Settings:
    """For limits that several gateways share."""
    limits = settings.rate_limits
    return quota.Settings(
        is_strict=limits.strict,
        wait_s=limits.wait_s,
        gateways=limits.gateways,
        redis_hosts=limits.redis_hosts,
        redis_tls=limits.redis_tls,
        redis_ca_file=limits.redis_ca_file,
    )


def observe_settings(settings: DataPlaneSettings) -> observe.Settings:
    """For reading engines."""
    looks = settings.engine_metrics
    return observe.Settings(
        enabled=looks.enabled,
        interval_s=looks.interval_s,
        busy_interval_s=looks.busy_interval_s,
        max_per_s=looks.max_per_s,
        stale_s=looks.stale_s,
        timeout_s=looks.timeout_s,
        path=looks.path,
        port=looks.port,
        processes=settings.workers.count,
    )
