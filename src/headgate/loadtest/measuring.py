"""Measure one server: run a plan against it in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from headgate.loadtest.connecting import Target
from headgate.loadtest.histogram import Histogram
from headgate.loadtest.http import Connections
from headgate.loadtest.lag import Burden, Watch
from headgate.loadtest.plan.conversations import Form, Prompts, Turn
from headgate.loadtest.records import Slo, Tally
from headgate.loadtest.running import Limits, Run, Stop
from headgate.loadtest.sending import Sender

__all__ = ["Begun", "Job", "State", "measure"]


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent where, and how."""

    target: Target
    form: Form
    plan: Sequence[Sequence[Turn]]
    """Conversations, in order of their times."""
    salt: str
    slo: Slo
    limits: Limits
    timeout_s: float


class State(msgspec.Struct, kw_only=True):
    """How far a run is, for display."""

    requests: int = 0
    failed: int = 0
    output_tokens: int = 0
    in_flight: int = 0
    cpu_share: float = 0.0
    """Of a core, of the busiest process."""
    ttft: Histogram = msgspec.field(default_factory=Histogram)


Begun = Callable[[Callable[[], State]], object]
"""Gets, as a run begins, how to look at it."""


async def measure(
    job: Job, stop: Stop, begun: Begun, began_s: float | None = None
) -> tuple[Tally, list[Burden]]:
    """Run until everything was sent and answered, or the event is set.

    `began_s`: when the run begins, by `time.perf_counter`; now if None. Raises ValueError and OSError of
    `Target.server`.
    """
    tally = Tally(slo=job.slo)
    connections = Connections(job.target.server())
    sender = Sender(connections, job.form, tally, job.timeout_s, f"{job.salt}-")
    run = Run(job.plan, Prompts(job.salt), sender.send, tally, job.limits)

    def state() -> State:
        return State(
            requests=tally.requests,
            failed=tally.failed,
            output_tokens=tally.output_tokens,
            in_flight=run.places.in_flight,
            cpu_share=burden.share,
            ttft=tally.ttft,
        )

    try:
        async with Watch() as burden:
            begun(state)
            await run.run(stop, began_s)
    finally:
        connections.close()
    return tally, [burden]
