"""Decides whether a pool has capacity for one more request.

A Capacity follows the endpoints and priority bands of a pool, and reads the endpoint states when asked.
`make` creates one from settings.
"""

from headgate.flow.capacity.capacity import Capacity
from headgate.flow.capacity.ceilings import Ceilings, Holdback, SoftReflective
from headgate.flow.capacity.concurrency import Concurrency
from headgate.flow.capacity.in_flight import InFlight, SessionRoom
from headgate.flow.capacity.making import make
from headgate.flow.capacity.pace import Pace
from headgate.flow.capacity.predicted import PredictedWork
from headgate.flow.capacity.settings import DETECTORS, CapacitySettings, CeilingSettings
from headgate.flow.capacity.stages import Stages
from headgate.flow.capacity.utilization import Utilization

__all__ = [
    "DETECTORS",
    "Capacity",
    "CapacitySettings",
    "CeilingSettings",
    "Ceilings",
    "Concurrency",
    "Holdback",
    "InFlight",
    "Pace",
    "PredictedWork",
    "SessionRoom",
    "SoftReflective",
    "Stages",
    "Utilization",
    "make",
]
