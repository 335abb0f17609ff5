"""The settings that /admin/config reads and changes."""

from typing import Annotated, Any, Literal, get_args

import msgspec
from msgspec import Meta

from headgate.simulator.server.failures.latencies import LatencySettings

Refusal = Literal[
    "rate_limit", "invalid_api_key", "context_length", "server_error", "invalid_request", "model_not_found"
]
"""An error instead of an answer."""
MishapKind = Literal[
    "stall", "reset", "slow_loris", "partial_stream", "malformed_json", "wrong_usage", "latency"
]
"""An answer that goes wrong on its way; `latency` only comes late."""
REFUSALS: dict[str, tuple[int, str]] = {
    "rate_limit": (429, "Rate limit reached"),
    "invalid_api_key": (401, "Incorrect API key provided"),
    "context_length": (400, "This model's maximum context length is exceeded"),
    "server_error": (503, "The server is overloaded or not ready yet"),
    "invalid_request": (400, "Invalid request"),
    "model_not_found": (404, "The model does not exist"),
}

FAILURE_TYPES: tuple[str, ...] = (*REFUSALS, *get_args(MishapKind))

Seconds = Annotated[float, Meta(ge=0, le=3600)]


class FailureSettings(LatencySettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long things take and what goes wrong until it is changed; the schedule of faults comes on top."""

    failure_injection_rate: Annotated[float, Meta(ge=0, le=100)] = 0.0
    """Percent of requests that fail."""
    failure_types: tuple[Refusal | MishapKind, ...] = tuple(REFUSALS)  # type: ignore[arg-type]
    """The ways in which they fail, each as likely as the others."""
    latency_s: Seconds = 1.0
    """How late a request is that fails by `latency`."""
    stall_s: Seconds = 30.0
    """How long an answer stands still that fails by `stall`."""
    trickle_s: Seconds = 0.1
    """How long each 16 bytes take of an answer that fails by `slow_loris`."""
    slowdown: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    """By how much steps take longer."""
    ready: bool = True
    """Whether /health says so."""
    metrics: Literal["on", "off", "stale"] = "on"
    """Whether /metrics answers, and with figures of now or of when this was set."""
    faults: Annotated[list[Any], Meta(max_length=1000)] = msgspec.field(default_factory=list)
    """A schedule of faults, whose times count from when it is set."""
