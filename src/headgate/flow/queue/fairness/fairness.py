"""What every way to choose between the flows of a band has in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import msgspec

from headgate.flow.queue.flow import Flow


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a request has taken, once it is over, or several of one flow together. All in tokens."""

    prompt_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    """Of the prompt."""
    requests: int = 1

    @property
    def work(self) -> int:
        return max(self.prompt_tokens - self.cached_tokens, 0) + self.output_tokens


class Fairness(ABC):
    """Of one band. Is told of every flow that gets or loses its first in line, and asked whose is next."""

    knows_flows = True
    """Whether requests are told apart by their flows; otherwise all wait in one line."""

    pauses = False
    """Whether there are times in which nobody's turn comes."""

    @abstractmethod
    def joined(self, flow: Flow, now: float) -> None:
        """A flow that had nothing waiting has a request now."""

    @abstractmethod
    def next(self, now: float) -> Flow:
        """Whose head is next; there is at least one. Asking changes nothing."""

    @abstractmethod
    def took(self, flow: Flow, work: int, now: float) -> None:
        """A request of so many tokens was sent, and is out of the line already. It need not have been the
        turn of its flow."""

    def moved(self, flow: Flow, now: float) -> None:  # noqa: B027 - most look at heads when they are asked
        """A flow has another head, and none of its requests was sent."""

    @abstractmethod
    def left(self, flow: Flow, now: float) -> None:
        """Nothing of a flow waits any more."""

    def served(  # noqa: B027 - nothing to those that go by requests
        self, name: str, flow: Flow | None, work: int, usage: Usage, now: float
    ) -> None:
        """A request of a flow is over that was taken for `work`; the flow is None if nothing of it waits."""

    def charged(self, flow: Flow, work: int, now: float) -> None:  # noqa: B027 - as above
        """So much of a flow that has requests waiting here was sent by another process."""

    def ready_at(self, now: float) -> float:
        """Until when nobody's turn comes; not later than `now` where somebody's is."""
        return -math.inf

    def is_pausing(self, now: float) -> bool:
        """Whether some requests may not go now even where nobody waits: then all that come wait, and some of
        them go at once."""
        return False

    def standing(self, flow: Flow, now: float) -> str:
        """Where a flow stands, in words; for explanations."""
        return ""
