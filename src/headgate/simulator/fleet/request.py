"""A request of a trace as the data plane sees it."""

from __future__ import annotations

from headgate import scheduling
from headgate.requests.client import Header
from headgate.requests.decision import Decision
from headgate.requests.pool_state import PoolState
from headgate.requests.reported import Usage
from headgate.simulator.fleet.blocks import hashes_of, of_adapter
from headgate.simulator.model import EngineConfig, FinishedRequest, RequestId, SimulatedRequest
from headgate.traffic.traces import TimedRequest

SESSION_HEADER = b"x-session-id"
_BODY = b'{"prompt":""}'
"""Read by connectors only; engines here know their prompts from the trace."""


class TracedRequest:
    """Has no body except a prompt that any connector accepts."""

    path = "/v1/completions"
    headers: list[Header] = []
    content_coding = b""
    method = b"POST"
    is_from_trusted = True
    tenant = None
    held_bytes = 0

    __slots__ = ("arrived_at", "body", "number", "timed")

    def __init__(self, number: int, timed: TimedRequest) -> None:
        self.number = number
        self.timed = timed
        self.arrived_at = timed.at_s
        self.body: bytes | bytearray = _BODY

    def header(self, name: bytes) -> str:
        """Only the session header exists; clients send it if the trace has sessions."""
        return str(self.timed.session) if name == SESSION_HEADER and self.timed.session >= 0 else ""

    def decision(self, pool: PoolState) -> Decision:
        """The request is routed to the pool, whatever it asks for."""
        timed, decision = self.timed, Decision()
        decision.model = decision.upstream_model = timed.adapter or "model"
        decision.stream = timed.is_streamed
        decision.pool = pool
        decision.body = bytes(self.body)
        full = timed.prompt_tokens // timed.block_tokens if timed.block_tokens else 0
        decision.scheduled = scheduling.Request(
            model=decision.model,
            adapter=timed.adapter,
            prompt_tokens=timed.prompt_tokens,
            prefix=of_adapter(timed.prefix[:full], timed.adapter),
            block_tokens=timed.block_tokens,
            priority=timed.priority,
            header=self.header,
        )
        return decision

    def asked(
        self,
        request_id: RequestId,
        config: EngineConfig,
        *,
        output_tokens: int | None = None,
        received_tokens: int = 0,
        keeps_kv: bool = False,
    ) -> SimulatedRequest:
        """The request to an engine."""
        timed = self.timed
        hashes = hashes_of(timed, config.block_size)
        return SimulatedRequest(
            request_id=request_id,
            prompt_tokens=timed.prompt_tokens,
            output_tokens=timed.output_tokens if output_tokens is None else output_tokens,
            blocks=hashes.prompt,
            answer_blocks=hashes.answer,
            adapter=timed.adapter,
            priority=-timed.priority,  # in a trace larger values go first, in an engine smaller ones
            received_tokens=received_tokens,
            keeps_kv=keeps_kv,
        )


class SimulatedAnswer:
    """The part of a response received so far, in tokens instead of bytes."""

    __slots__ = ("finished", "has_passed")

    def __init__(self) -> None:
        self.has_passed = False
        self.finished: FinishedRequest | None = None
        """How the engine ended it, or its progress when it was cut off."""

    @property
    def is_one_response(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return self.finished.output_tokens if self.finished is not None else 0

    @property
    def passed_bytes(self) -> int:
        return self.size

    def usage(self, request_bytes: int) -> Usage | None:
        finished = self.finished
        if finished is None:
            return None
        return Usage(finished.prompt_tokens, finished.output_tokens, finished.cached_tokens)

    def tokens(self, expected: int, counted: Usage | None, *, is_stream: bool) -> int:
        return self.size

    def is_hollow(self, path: str, counted: Usage | None, *, is_stream: bool) -> bool:
        return False

    def forget(self, path: str) -> None:
        self.finished = None
