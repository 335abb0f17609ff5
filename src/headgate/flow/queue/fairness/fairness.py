"""The common interface of fairness policies."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import msgspec

from headgate.flow.queue.flow import Flow


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Use of a finished request, or of several of one flow. All in tokens."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Part of the prompt."""
    requests: int = 1

    @property
    def work(self) -> int:
        return max(self.prompt_tokens - self.cached_tokens, 0) + self.output_tokens


class Fairness(ABC):
    """Fairness of one band. It is notified of every flow whose head changes, and asked for the next one."""

    knows_flows = True
    """Whether requests are told apart by flow; otherwise all wait in one line."""

    pauses = False
    """Whether there are times at which no flow has a turn."""

    @abstractmethod
    def joined(self, flow: Flow, now: float) -> None:
        """Called when a flow without queued requests gets one."""

    @abstractmethod
    def next(self, now: float) -> Flow:
        """The flow whose head is next; there is at least one. Has no effect."""

    @abstractmethod
    def took(self, flow: Flow, work: int, now: float) -> None:
        """Called when a request of `work` tokens was sent; it is already removed. It need not have been its
        flow's turn."""

    def moved(self, flow: Flow, now: float) -> None:  # noqa: B027 - most policies read heads when asked
        """Called when a flow gets another head without having sent a request."""

    @abstractmethod
    def left(self, flow: Flow, now: float) -> None:
        """Called when a flow has no queued requests any more."""

    def served(  # noqa: B027 - policies by requests ignore it
        self, name: str, flow: Flow | None, work: int, usage: Usage, now: float
    ) -> None:
        """Called when a request of a flow has ended that was expected to take `work`; the flow is None if it
        has no queued requests."""

    def charged(self, flow: Flow, work: int, now: float) -> None:  # noqa: B027 - as above
        """Called when another process has sent `work` of a flow that has queued requests here."""

    def ready_at(self, now: float) -> float:
        """Until when no flow has a turn; in the past if one has."""
        return -math.inf

    def is_pausing(self, now: float) -> bool:
        """Whether some requests must wait even if the queue is empty: then every new request is queued, and
        some leave at once."""
        return False

    def standing(self, flow: Flow, now: float) -> str:
        """The position of a flow, in words; for explanations."""
        return ""
