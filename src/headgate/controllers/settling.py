"""When a status that differs from the stored one in its words alone is written.

What holds, and why, is written at once. How many Pods stand behind it is not worth a write for each Pod of a
rollout, which may touch hundreds of routes: such words are written once they have stayed the same for a
while, and during a long rollout now and then. A count that came back to what is stored is not written at all.
"""

from __future__ import annotations

from typing import NamedTuple

from headgate import api
from headgate.controllers import conditions
from headgate.controllers.relations import Subject

QUIET_S = 2.0
"""How long the words stay the same before they are written."""
LONGEST_S = 30.0
"""How long the stored words may be out of date while the right ones keep changing."""


class _Waiting(NamedTuple):
    status: api.ObservedStatus
    same_since: float
    differs_since: float


class Settling:
    """Times are monotonic seconds, by the caller's clock."""

    def __init__(self, quiet_s: float = QUIET_S, longest_s: float = LONGEST_S) -> None:
        self._quiet_s = quiet_s
        self._longest_s = longest_s
        self._waiting: dict[Subject, _Waiting] = {}

    def __len__(self) -> int:
        """How many statuses wait for their words to stay the same."""
        return len(self._waiting)

    def wait_s(
        self, subject: Subject, stored: api.ObservedStatus | None, status: api.ObservedStatus, now: float
    ) -> float:
        """For how many seconds `status`, which is not what is stored, should not be written yet."""
        if not conditions.is_reworded(stored, status):
            return 0.0
        waiting = self._waiting.get(subject) or _Waiting(status, now, now)
        if waiting.status != status:
            waiting = waiting._replace(status=status, same_since=now)
        self._waiting[subject] = waiting
        due = min(waiting.same_since + self._quiet_s, waiting.differs_since + self._longest_s)
        return max(0.0, due - now)

    def forget(self, subject: Subject) -> None:
        """What is stored is right, or is gone."""
        self._waiting.pop(subject, None)
