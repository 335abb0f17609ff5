"""global-strict-fairness-policy: only the band's ordering decides, across all flows."""

from __future__ import annotations

from headgate.flow.queue.fairness.fairness import Fairness
from headgate.flow.queue.flow import Flow


class GlobalStrict(Fairness):
    """All requests wait in one line."""

    knows_flows = False

    def __init__(self) -> None:
        self._line: Flow | None = None

    def joined(self, flow: Flow, now: float) -> None:
        self._line = flow

    def next(self, now: float) -> Flow:
        assert self._line is not None
        return self._line

    def took(self, flow: Flow, work: int, now: float) -> None:
        """Nothing to do."""

    def left(self, flow: Flow, now: float) -> None:
        self._line = None
