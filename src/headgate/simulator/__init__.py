"""Simulated inference engines, so that everything around an engine runs and is measured without a GPU.

The room decides how long a batch takes and which request gets its next token (`model`, pure and driven by any
clock); it is given requests as token counts, or over HTTP as OpenAI bodies, and hands on tokens, timings and
vLLM-named metrics. `server` is the live shell around the model; it is imported only by those who listen.
`fleet` puts the scheduler in front of many engines in virtual time, for the traffic of `traces` and
`workloads`; `replay` finds what such runs have to tell.
"""

from headgate.simulator.model import (
    PROFILES,
    Cancellation,
    Engine,
    EngineConfig,
    EngineProfile,
    EngineStatistics,
    FinishedRequest,
    RequestId,
    SimulatedRequest,
    StepCosts,
    StepOutcome,
    StepPlan,
    Submission,
    VirtualRun,
    run_virtual,
)

__all__ = [
    "PROFILES",
    "Cancellation",
    "Engine",
    "EngineConfig",
    "EngineProfile",
    "EngineStatistics",
    "FinishedRequest",
    "RequestId",
    "SimulatedRequest",
    "StepCosts",
    "StepOutcome",
    "StepPlan",
    "Submission",
    "VirtualRun",
    "run_virtual",
]
