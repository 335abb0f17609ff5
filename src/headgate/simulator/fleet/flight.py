"""A request on its way: what the gateway holds of it from its arrival to its record."""

from __future__ import annotations

from headgate import scheduling
from headgate.fleet import EndpointState, Suspects
from headgate.simulator.fleet.blocks import hashes_of, of_adapter
from headgate.simulator.fleet.records import Outcome, RequestRecord
from headgate.simulator.model import EngineConfig, FinishedRequest, RequestId, SimulatedRequest
from headgate.simulator.traces import TimedRequest

SESSION_HEADER = b"x-session-id"


class Flight:
    """One request, whatever attempts it takes."""

    __slots__ = (
        "attempts",
        "choice",
        "first_token_s",
        "number",
        "order",
        "prefill",
        "scheduled",
        "sent_s",
        "suspects",
        "timed",
        "tried",
        "tried_prefill",
        "work",
    )

    def __init__(self, number: int, timed: TimedRequest) -> None:
        self.number = number
        self.timed = timed
        full = timed.prompt_tokens // timed.block_tokens if timed.block_tokens else 0
        self.scheduled = scheduling.Request(
            model=timed.adapter or "model",
            adapter=timed.adapter,
            prompt_tokens=timed.prompt_tokens,
            prefix=of_adapter(timed.prefix[:full], timed.adapter),
            block_tokens=timed.block_tokens,
            priority=timed.priority,
            header=self._header,
        )
        self.tried: list[EndpointState] = []
        self.tried_prefill: list[EndpointState] = []
        self.attempts = 0
        self.choice: scheduling.Choice | None = None
        """Who answers, as of the last attempt."""
        self.prefill: scheduling.Choice | None = None
        """Who prefills for it, if another does."""
        self.suspects = Suspects()
        """Endpoints that rejected it, as long as it is open whose fault that was."""
        self.first_token_s: float | None = None
        self.sent_s: float | None = None
        """When it first went to an endpoint."""
        self.work = 0
        """What it was taken for where requests wait for their turn, in tokens."""
        self.order = 0
        """Of its place there; 0 if it did not wait."""

    @property
    def request_id(self) -> RequestId:
        """Of its last attempt."""
        return RequestId(f"{self.number}.{self.attempts}")

    def _header(self, name: bytes) -> str:
        """A client says which conversation a request belongs to, if it knows."""
        return str(self.timed.session) if name == SESSION_HEADER and self.timed.session >= 0 else ""

    def asked(
        self,
        config: EngineConfig,
        *,
        output_tokens: int | None = None,
        received_tokens: int = 0,
        keeps_kv: bool = False,
    ) -> SimulatedRequest:
        """What an engine is asked for."""
        timed = self.timed
        hashes = hashes_of(timed, config.block_size)
        return SimulatedRequest(
            request_id=self.request_id,
            prompt_tokens=timed.prompt_tokens,
            output_tokens=timed.output_tokens if output_tokens is None else output_tokens,
            blocks=hashes.prompt,
            answer_blocks=hashes.answer,
            adapter=timed.adapter,
            priority=-timed.priority,  # the larger goes first in a trace, the smaller in an engine
            received_tokens=received_tokens,
            keeps_kv=keeps_kv,
        )

    def record(
        self, outcome: Outcome, now: float, finished: FinishedRequest | None, why: str = ""
    ) -> RequestRecord:
        timed, choice = self.timed, self.choice
        return RequestRecord(
            number=self.number,
            arrived_s=timed.at_s,
            ended_s=now,
            outcome=outcome,
            endpoint=choice.load.endpoint.name if choice else "",
            prefill_endpoint=self.prefill.load.endpoint.name if self.prefill else "",
            attempts=self.attempts,
            prompt_tokens=timed.prompt_tokens,
            output_tokens=finished.output_tokens if finished else 0,
            cached_tokens=finished.cached_tokens if finished else 0,
            expected_cached_tokens=choice.cached_tokens if choice else 0,
            expected_first_token_s=choice.first_token_s if choice else None,
            first_token_s=self.first_token_s,
            started_s=finished.started_s if finished else None,
            preemptions=finished.preemptions if finished else 0,
            session=timed.session,
            adapter=timed.adapter,
            tenant=timed.tenant,
            priority=timed.priority,
            queued_s=(now if self.sent_s is None else self.sent_s) - timed.at_s,
            why=why,
        )
