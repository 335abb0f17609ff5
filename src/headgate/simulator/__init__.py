"""Simulated inference engines, to run and measure everything around an engine without a GPU.

`model` decides how long a batch takes and which request gets its next token; it is pure and driven by any
clock. Requests come in as token counts, or over HTTP as OpenAI bodies; tokens, timings and metrics with
vLLM's names come out. `server` is the live HTTP shell around the model, imported only where it is served.
`fleet` runs the scheduler in front of many engines in virtual time, with traffic from `traces` and
`workloads`; `replay` evaluates such runs. `autoscaling` tries policies for the number of replicas on a faster
model.
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
