"""The work of other gateways on the same endpoint, as its engine or they themselves report it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from headgate.fleet.elsewhere import Elsewhere

if TYPE_CHECKING:
    from headgate.fleet.prefill_queue import PrefillQueue
    from headgate.fleet.reading import EngineReading


class OthersQueue:
    """The requests that other gateways have waiting at one endpoint."""

    __slots__ = (
        "_head_tokens",
        "_prompt_s",
        "_unexplained",
        "_waiting",
        "owed_tokens",
        "prefilled_tokens",
        "queue_s",
        "read_at",
        "reported",
        "since",
    )

    def __init__(self) -> None:
        self.queue_s = 0.0
        """Seconds of the endpoint's queue that the last reading attributes to unknown gateways."""
        self.read_at = -math.inf
        """Time of that reading; minus infinity if there is none."""
        self.owed_tokens = 0
        """Tokens that the endpoint has yet to prefill for gateways that report their work."""
        self.prefilled_tokens = 0
        """Tokens that they have seen served since our last first token."""
        self._head_tokens = 0
        self.since = -math.inf
        """When it started on the first of them; stays when all are served."""
        self.reported = 0
        """Requests of those gateways."""
        self._unexplained = self._waiting = 0
        """Requests in the last reading that no report explains yet, and how many wait in its engine."""
        self._prompt_s = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nobody else has a prompt in the endpoint's queue."""
        return self.queue_s <= 0.0 and not self.owed_tokens

    @property
    def is_working(self) -> bool:
        """Whether the endpoint is known to work on prompts of gateways that report theirs."""
        return self.owed_tokens > 0 and self.since > -math.inf

    def clear(self) -> None:
        """Forget the last reading."""
        self.queue_s, self.read_at = 0.0, -math.inf
        self._unexplained = self._waiting = 0

    def report(self, elsewhere: Elsewhere) -> None:
        """Apply what other gateways report. A report may explain requests that a reading has shown before."""
        more = elsewhere.requests - self.reported
        self.reported, self.owed_tokens = elsewhere.requests, elsewhere.owed_tokens
        self.since = max(self.since, elsewhere.since)
        self._head_tokens = elsewhere.head_tokens
        if more > 0 and self._unexplained:
            self._unexplained = max(self._unexplained - more, 0)
            self.queue_s = min(self._waiting, self._unexplained) * self._prompt_s

    def read(self, reading: EngineReading, own_requests: int, prompt_tokens: float, token_s: float) -> int:
        """Apply a reading, taken while the engine had `own_requests` of ours or of gateways that report
        theirs. Returns how many waiting requests are of others; they are assumed to have `prompt_tokens`
        each, which take `token_s` per token."""
        others = self._unexplained = self._waiting = 0
        if reading.waiting and reading.running is not None:
            self._waiting = reading.waiting
            self._unexplained = max(0, reading.waiting + reading.running - own_requests)
            others = min(self._waiting, self._unexplained)
        self._prompt_s = prompt_tokens * token_s
        self.queue_s, self.read_at = others * self._prompt_s, reading.at
        return others

    def take_prefilled(self) -> int:
        """The tokens served for others since the last call."""
        tokens, self.prefilled_tokens = self.prefilled_tokens, 0
        return tokens

    def done_at(self, queue: PrefillQueue, token_s: float) -> float:
        """When all queues are prefilled, at `token_s` seconds per token, if `queue` is ours."""
        if self.owed_tokens or queue.is_behind:
            own_tokens = queue.owed_tokens if queue.waiting or queue.is_behind else 0
            done_at = self._start(queue, token_s) + (self.owed_tokens + own_tokens) * token_s
        else:
            done_at = queue.done_at(token_s)
        return max(done_at, self.read_at) + self.queue_s if self.queue_s else done_at

    def head_due(self, queue: PrefillQueue, token_s: float, *, is_ordered: bool) -> float:
        """When the next first token is due; infinite if none is awaited. Nobody knows whose prompt is the
        first one, so it may be the longest."""
        if not self.owed_tokens and not queue.is_behind:
            return queue.head_due(token_s, is_ordered=is_ordered) + self.queue_s
        head_tokens = max(queue.head_tokens(is_ordered=is_ordered), self._head_tokens)
        if not head_tokens:
            return math.inf
        return self._start(queue, token_s) + head_tokens * token_s + self.queue_s

    def _start(self, queue: PrefillQueue, token_s: float) -> float:
        """Since when the endpoint works on what is owed. Each first token shows it, whose ever it is; of our
        prompts whose first tokens are not visible, only the clock tells when they are done."""
        if queue.is_behind:
            return self.since if self.owed_tokens or self.since > queue.since else queue.since
        began_at = queue.since + queue.delay_s if queue.waiting else queue.done_at(token_s)
        return max(began_at, self.since)
