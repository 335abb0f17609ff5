"""Sums of what flows used since the last report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headgate.flow.sharing.reports import Charge

MAX_FLOWS = 512
"""Clients choose flow names: beyond this many, only the first are reported; frequent ones appear early."""

_NONE = (0, 0, 0, 0, 0)


class Charges:
    """Adds up use; `take` starts again."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[tuple[int, str], tuple[int, int, int, int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(
        self,
        priority: int,
        flow: str,
        sent: int = 0,
        prompt: int = 0,
        output: int = 0,
        cached: int = 0,
        requests: int = 0,
    ) -> None:
        key = (priority, flow)
        before = self._sums.get(key)
        if before is None:
            if len(self._sums) >= MAX_FLOWS:
                return
            before = _NONE
        self._sums[key] = (
            before[0] + sent,
            before[1] + prompt,
            before[2] + output,
            before[3] + cached,
            before[4] + requests,
        )

    def add_all(self, charges: Iterable[Charge]) -> None:
        for each in charges:
            self.add(
                each.priority, each.flow, each.sent, each.prompt, each.output, each.cached, each.requests
            )

    def take(self) -> Sequence[Charge]:
        """All use since the last call."""
        sums, self._sums = self._sums, {}
        return [
            Charge(
                priority=priority,
                flow=flow,
                sent=sent,
                prompt=prompt,
                output=output,
                cached=cached,
                requests=requests,
            )
            for (priority, flow), (sent, prompt, output, cached, requests) in sums.items()
        ]
