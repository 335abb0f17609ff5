"""The time that one request spends in a queue, and what its client hears of it meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.gateway import limiting
from headgate.gateway.chunks import LAST_CHUNK, chunk
from headgate.gateway.queueing import continuation
from headgate.gateway.queueing.kinds import kind_of
from headgate.gateway.refusals import error_event

if TYPE_CHECKING:
    from headgate.flow.queue import Waiting
    from headgate.gateway.delivery import Delivery
    from headgate.gateway.queueing.pool_queue import PoolQueue
    from headgate.requests.refusal import Refusal

FIRST_PROGRESS_S = 0.9
"""Whoever waits for less hears nothing, and has an answer as any other."""
PROGRESS_S = 4.9
"""Between two comments; sweeps come about once a second, and proxies often hang up after 15 s of silence."""


class Wait:
    """Made for a request that may not go at once; kept to its end, for the log."""

    __slots__ = (
        "_told_at",
        "begun_at",
        "dropped_reason",
        "exchange",
        "has_head",
        "kind",
        "over_at",
        "place",
        "queue",
        "told_bytes",
        "wants_progress",
    )

    def __init__(
        self,
        exchange: Delivery,
        queue: PoolQueue,
        place: Waiting,
        begun_at: float,
        *,
        wants_progress: bool,
    ) -> None:
        self.exchange = exchange
        self.queue = queue
        self.place = place
        """Its place in the queue."""
        self.kind = kind_of(exchange, place)
        self.begun_at = begun_at
        self.over_at = 0.0
        """When it was sent, dropped, or given up; 0 while it waits."""
        self.dropped_reason = ""
        """Why it was not served, or was taken back; empty if nothing of that happened."""
        self.wants_progress = wants_progress
        self.has_head = False
        """Whether its client has the head of a stream already."""
        self.told_bytes = 0
        """Of the stream's body, besides the answer's, framing included."""
        self._told_at = begun_at - (PROGRESS_S - FIRST_PROGRESS_S)

    @property
    def is_over(self) -> bool:
        return self.over_at > 0.0

    def let_go(self) -> None:
        """Forgets its request, which is settled and keeps this object: a reference cycle would keep both
        until the next garbage collection."""
        del self.exchange
        self.place.owner = None

    def seconds(self, now: float) -> float:
        """How long it waited, or waits until now."""
        return (self.over_at or now) - self.begun_at

    def tell(self, exchange: Delivery, now: float) -> bytes:
        """What its client hears now, if anything; called about once a second while it waits."""
        if not self.wants_progress or now - self._told_at < PROGRESS_S:
            return b""
        self._told_at = now
        comment = chunk(b": %b\n\n" % self.queue.progress(self.place, now).encode())
        self.told_bytes += len(comment)
        if self.has_head:
            return comment
        self.has_head = True
        request, held = exchange.request, exchange.reservation
        lines = request.answer_lines
        if held is not None:
            lines += limiting.lines(held.limit, held.input_tokens, held.output_tokens, now)
        return continuation.head(lines, exchange.request_id, keep_alive=request.keep_alive) + comment

    def refused(self, refusal: Refusal, target: bytes) -> bytes:
        """What ends the stream whose head its client has."""
        last = chunk(error_event(refusal, target)) + LAST_CHUNK
        self.told_bytes += len(last)
        return last
