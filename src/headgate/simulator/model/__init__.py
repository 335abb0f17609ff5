"""The step model of a continuous-batching engine: events in, instructions out, no I/O and no clock.

Decides which requests run in the next step, how long it takes, and which requests emit a token at its end.
Takes requests as token counts, and the time as an argument; returns a `StepOutcome` for each step and exactly
one `FinishedRequest` for each request. The live server and `run_virtual` drive the same `Engine`.
"""

from headgate.simulator.model.config import ConfigError, EngineConfig, StepCosts
from headgate.simulator.model.engine import Engine
from headgate.simulator.model.faults import EngineFaults, Fault, FaultKind, FaultSchedule
from headgate.simulator.model.kv import KvBlocks
from headgate.simulator.model.latencies import Latencies
from headgate.simulator.model.profiles import DEFAULT_PROFILE, PROFILES, EngineProfile
from headgate.simulator.model.request import (
    Emission,
    FinishedRequest,
    FinishReason,
    QueueFullError,
    RefusedError,
    RequestId,
    RequestTooLongError,
    SimulatedRequest,
    StepOutcome,
    StepPlan,
)
from headgate.simulator.model.statistics import EngineStatistics
from headgate.simulator.model.text import LARGEST_TOKEN, Tokens, Vocabulary, detokenize, tokenize
from headgate.simulator.model.tiers import AllBlocksCleared, BlockRemoved, BlockStored, KvEvent, RemoteStore
from headgate.simulator.model.virtual import Cancellation, Submission, VirtualRun, run_virtual

__all__ = [
    "DEFAULT_PROFILE",
    "LARGEST_TOKEN",
    "PROFILES",
    "AllBlocksCleared",
    "BlockRemoved",
    "BlockStored",
    "Cancellation",
    "ConfigError",
    "Emission",
    "Engine",
    "EngineConfig",
    "EngineFaults",
    "EngineProfile",
    "EngineStatistics",
    "Fault",
    "FaultKind",
    "FaultSchedule",
    "FinishReason",
    "FinishedRequest",
    "KvBlocks",
    "KvEvent",
    "Latencies",
    "QueueFullError",
    "RefusedError",
    "RemoteStore",
    "RequestId",
    "RequestTooLongError",
    "SimulatedRequest",
    "StepCosts",
    "StepOutcome",
    "StepPlan",
    "Submission",
    "Tokens",
    "VirtualRun",
    "Vocabulary",
    "detokenize",
    "run_virtual",
    "tokenize",
]
