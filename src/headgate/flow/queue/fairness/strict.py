"""global-strict-fairness-policy: only the band's ordering decides, across all flows."""

from __future__ import annotations

from headgate.flow.queue.fairness.fairness import Fairness
from headgate.flow.queue.flow import Flow


class GlobalStrict(Fairness):
    """All requests of a band wait in one line, without regard to flows."""

    knows_flows = False

    def __init__(self) -> None:
        self._line: Flow | None = None

    def joined(self, flow: Flow, now: float) -> None:
        self._line = flow

    def next(self, now: float) -> Flow:
        assert self._line is not None
        return self._line

    def took(self, flow: Flow, work: int, now: float) -> None:
        """Do nothing: there is no state per flow."""

    def left(self, flow: Flow, now: float) -> None:
        self._line = None
