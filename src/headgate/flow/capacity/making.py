"""Creates the capacity of a pool from settings."""

from __future__ import annotations

import sys

from headgate.flow.capacity.capacity import Capacity
from headgate.flow.capacity.ceilings import Ceilings, Holdback, SoftReflective
from headgate.flow.capacity.concurrency import Concurrency
from headgate.flow.capacity.in_flight import InFlight, SessionRoom
from headgate.flow.capacity.pace import Pace
from headgate.flow.capacity.predicted import PredictedWork
from headgate.flow.capacity.settings import CapacitySettings, CeilingSettings
from headgate.flow.capacity.stages import Stages
from headgate.flow.capacity.utilization import Utilization


def make(settings: CapacitySettings, max_requests: int = sys.maxsize) -> Capacity:
    """A capacity without endpoints yet; `max_requests` caps each endpoint in any case."""
    match settings.detector:
        case "pace":
            return Pace(settings.per_s)
        case "in-flight":
            return InFlight(_ceilings(settings.ceilings), most=settings.most)
        case "session-room":
            return SessionRoom(_ceilings(settings.ceilings), per_endpoint=settings.per_endpoint)
        case _:
            return Stages(lambda: _of_stage(settings, max_requests))


def _of_stage(settings: CapacitySettings, max_requests: int) -> Capacity:
    ceilings = _ceilings(settings.ceilings)
    match settings.detector:
        case "utilization-detector":
            return Utilization(
                ceilings,
                queue_depth=settings.queue_depth,
                kv_usage=settings.kv_usage,
                stale_s=settings.stale_s,
            )
        case "concurrency-detector":
            return Concurrency(
                ceilings,
                mode=settings.mode,
                max_requests=settings.max_requests,
                max_tokens=settings.max_tokens,
            )
        case _:
            return PredictedWork(
                ceilings,
                target_s=settings.target_s,
                without_reading=settings.without_reading,
                max_requests=max_requests,
            )


def _ceilings(settings: CeilingSettings) -> Ceilings:
    match settings.policy:
        case "priority-holdback-policy":
            return Holdback(settings.least, settings.most, by_value=settings.domain == "value")
        case "soft-reflective-ceiling-policy":
            return SoftReflective()
        case _:
            return Ceilings(settings.ceiling)
