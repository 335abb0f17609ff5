"""A minimal shell, for tests: it records effects, and its caller reports the events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.requests import effects, way
from headgate.requests.life import Life
from headgate.requests.received import ReceivedBody

if TYPE_CHECKING:
    from headgate.requests.client import ClientRequest
    from headgate.requests.data_plane import DataPlane
    from headgate.requests.pool_state import PoolState
    from headgate.requests.refusal import Refusal


class InProcess:
    """Owns one request. `done` has all effects so far, the latest last."""

    def __init__(self, plane: DataPlane, request: ClientRequest) -> None:
        self.received = ReceivedBody(request.path)
        self.life = Life(plane, request, self.received)
        self.done: list[effects.Effect] = []

    def start(self, now: float) -> None:
        """Start once the body is complete."""
        way.begin(self.life, now)
        self.settle(now)

    def settle(self, now: float) -> None:
        """Perform the pending effects in order; call it after every event."""
        todo = self.life.todo
        while todo:
            effect = todo.pop(0)
            self.done.append(effect)
            if isinstance(effect, effects.Hold):
                pool = self.life.pool
                assert pool is not None
                assert pool.queue is not None
                pool.queue.hold(self, now)
            elif isinstance(effect, effects.FallBack):
                way.decided(self.life, now)
            elif isinstance(effect, effects.FetchTokens):
                way.tokens_out(self.life, now)  # there is no other source of tokens

    def admitted(self, pool: PoolState, now: float) -> None:
        way.admitted(self.life, pool, now)
        self.settle(now)

    def turn_away(self, refusal: Refusal, now: float) -> None:
        way.turned_away(self.life, refusal, now)
        self.settle(now)

    @property
    def asked(self) -> effects.Ask | None:
        """The latest effect that sends the request to an endpoint."""
        return next((each for each in reversed(self.done) if isinstance(each, effects.Ask)), None)

    @property
    def refusal(self) -> Refusal | None:
        """Why the request was refused; None if it was not."""
        last = self.done[-1] if self.done else None
        return last.refusal if isinstance(last, effects.Refuse | effects.CutOff) else None
