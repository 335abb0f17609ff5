"""What a gateway's settings come to for the queue of a pool."""

from __future__ import annotations

import math

import msgspec

from headgate.flow import configuration
from headgate.flow.capacity import CapacitySettings
from headgate.flow.configuration import Queueing
from headgate.flow.queue import BandSettings, FlowSettings
from headgate.gateway.settings import GatewaySettings, weight

NAMES = (
    "flow_control",
    "no_endpoint_wait_s",
    "queue_ttl_s",
    "queue_max_requests",
    "queue_max_bytes",
    "queue_band_max_requests",
    "queue_band_max_bytes",
    "queue_fairness",
    "queue_order",
    "queue_weights",
    "queue_floor_share",
    "queue_promote_after_s",
    "queue_detector",
    "queue_target_s",
    "queue_max_in_flight",
    "max_endpoint_connections",
    "queue_evicts",
    "scheduling",
    "allow_experimental_plugins",
    "kthena_environment",
)
"""The settings that queues are made of."""


def queueing(settings: GatewaySettings) -> Queueing:
    """How requests wait for every pool: as the scheduler's file says, else the environment in Kthena's names,
    else the settings. The file and the environment were judged as they were read."""
    found: Queueing | None = None
    if settings.scheduling is not None:
        allow_alpha = settings.allow_experimental_plugins
        found = configuration.read(settings.scheduling, allow_alpha=allow_alpha).queueing
    if found is None and settings.kthena_environment:
        found = configuration.of_kthena(settings.kthena_environment, configuration.Problems())
        if found is not None:  # Kthena has no name for it, as there a pool without endpoints refuses
            flow = msgspec.structs.replace(found.flow, no_endpoint_ttl_s=settings.no_endpoint_wait_s)
            found = msgspec.structs.replace(found, flow=flow)
    return found or Queueing(flow=_flow(settings), capacity=_capacity(settings))


def _flow(settings: GatewaySettings) -> FlowSettings:
    return FlowSettings(
        is_on=settings.flow_control,
        ttl_s=settings.queue_ttl_s,
        no_endpoint_ttl_s=settings.no_endpoint_wait_s,
        max_requests=settings.queue_max_requests,
        max_bytes=settings.queue_max_bytes,
        band=BandSettings(
            max_requests=settings.queue_band_max_requests,
            max_bytes=settings.queue_band_max_bytes,
            fairness=settings.queue_fairness,
            ordering=settings.queue_order,
        ),
        weights=dict(map(weight, settings.queue_weights)),
        floor_share=settings.queue_floor_share,
        promote_after_s=settings.queue_promote_after_s or math.inf,
        evicts_running=settings.queue_evicts,
    )


def _capacity(settings: GatewaySettings) -> CapacitySettings:
    return CapacitySettings(
        detector=settings.queue_detector,
        target_s=settings.queue_target_s,
        max_requests=settings.queue_max_in_flight,
    )
