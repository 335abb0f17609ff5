"""Converts the settings of a process to those of a pool's queue."""

from __future__ import annotations

import math

import msgspec

from headgate.dataplane.settings import DataPlaneSettings, weight
from headgate.flow import configuration
from headgate.flow.capacity import CapacitySettings
from headgate.flow.configuration import Queueing
from headgate.flow.queue import BandSettings, FlowSettings


def decides(settings: DataPlaneSettings) -> tuple[object, ...]:
    """The settings that queues depend on: equal ones make equal queues."""
    scheduling = settings.scheduling
    return (
        settings.queue,
        settings.endpoints.max_connections,
        scheduling.content,
        scheduling.allow_experimental_plugins,
    )


def queueing(settings: DataPlaneSettings) -> Queueing:
    """The queue settings of every pool: from the scheduler's file, else from Kthena's environment variables,
    else from the settings. File and environment were validated when they were read."""
    found: Queueing | None = None
    if settings.scheduling.content is not None:
        allow_alpha = settings.scheduling.allow_experimental_plugins
        found = configuration.read(settings.scheduling.content, allow_alpha=allow_alpha).queueing
    if found is None and settings.queue.kthena_environment:
        found = configuration.of_kthena(settings.queue.kthena_environment, configuration.Problems())
        if found is not None:  # Kthena has no name for it, as its pools without endpoints reject
            flow = msgspec.structs.replace(found.flow, no_endpoint_ttl_s=settings.queue.no_endpoint_wait_s)
            found = msgspec.structs.replace(found, flow=flow)
    found = found or Queueing(flow=_flow(settings), capacity=_capacity(settings))
    return msgspec.structs.replace(found, flow=_with_starts(found.flow, settings))


def _with_starts(flow: FlowSettings, settings: DataPlaneSettings) -> FlowSettings:
    """No other configuration has names for these settings."""
    return msgspec.structs.replace(
        flow,
        start_ttl_s=settings.queue.start_wait_s,
        start_max_requests=settings.queue.start_max_requests,
        start_max_bytes=settings.queue.start_max_bytes,
    )


def _flow(settings: DataPlaneSettings) -> FlowSettings:
    return FlowSettings(
        is_on=settings.queue.enabled,
        ttl_s=settings.queue.ttl_s,
        no_endpoint_ttl_s=settings.queue.no_endpoint_wait_s,
        max_requests=settings.queue.max_requests,
        max_bytes=settings.queue.max_bytes,
        band=BandSettings(
            max_requests=settings.queue.band_max_requests,
            max_bytes=settings.queue.band_max_bytes,
            fairness=settings.queue.fairness,
            ordering=settings.queue.order,
        ),
        weights=dict(map(weight, settings.queue.weights)),
        floor_share=settings.queue.floor_share,
        promote_after_s=settings.queue.promote_after_s or math.inf,
        evicts_running=settings.queue.evict_running,
    )


def _capacity(settings: DataPlaneSettings) -> CapacitySettings:
    return CapacitySettings(
        detector=settings.queue.detector,
        target_s=settings.queue.target_s,
        max_requests=settings.queue.max_in_flight,
    )
