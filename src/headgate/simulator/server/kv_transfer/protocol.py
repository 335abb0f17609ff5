"""What requests did against the protocol of their connector: counted always, refused on demand."""

from collections import Counter, deque
from typing import NamedTuple

from headgate.simulator.server.errors import ApiError

KEPT = 100
"""Deviations of which the text is kept."""


class Deviation(NamedTuple):
    """One thing that a gateway should have done otherwise."""

    check: str
    """A short name to count by."""
    param: str | None
    """The field at fault."""
    message: str


class Protocol:
    """What was seen of prefill/decode traffic. `statistics` is what /admin/protocol shows."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.seen: Counter[str] = Counter()
        self.deviations: Counter[str] = Counter()
        self._last: deque[Deviation] = deque(maxlen=KEPT)

    def saw(self, what: str) -> None:
        self.seen[what] += 1

    def found(self, deviations: list[Deviation]) -> None:
        """Count these; if the protocol is checked, a 400 that names all of them."""
        for deviation in deviations:
            self.deviations[deviation.check] += 1
            self._last.append(deviation)
        if deviations and self.strict:
            told = "; ".join(deviation.message for deviation in deviations)
            raise ApiError(400, f"Against the protocol: {told}", param=deviations[0].param)

    def statistics(self) -> dict[str, object]:
        return {
            "strict": self.strict,
            "seen": dict(self.seen),
            "deviations": dict(self.deviations),
            "last": [deviation._asdict() for deviation in self._last],
        }
