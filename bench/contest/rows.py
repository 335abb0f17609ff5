"""The rows of the contest: differences from the plain trace on equal engines that serve in order."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from contest.capacity import TARGET_S
from contest.replicas import Fleet
from headgate.traffic.traces import TimedRequest


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One variation of the fleet or of its requests."""

    name: str
    has_slow_half: bool = False
    """Half of the engines have half the speed of the others."""
    shortest_first: bool = False
    """Engines take the shortest waiting prompt."""
    is_streamed: bool = True
    """Whether a gateway sees first tokens, or nothing before the end of a response."""
    shares_prefixes: bool = True
    """Whether prompts share prefixes; otherwise all blocks are unique."""
    target_s: float = TARGET_S
    """Target for the first token. It doubles with slow engines, which need twice as long for a prompt."""
    share_of_rate: float = 1.0
    """The fixed rate of the table, as a fraction of the plain row's."""

    def fleet(self, plain: Fleet) -> Fleet:
        """The engines of this row."""
        slow = plain.replicas // 2 if self.has_slow_half else 0
        return plain._replace(slow_replicas=slow, shortest_first=self.shortest_first)

    def requests(self, plain: Iterable[TimedRequest]) -> list[TimedRequest]:
        """The requests of this row."""
        if self.is_streamed and self.shares_prefixes:
            return list(plain)
        requests, block = [], 0
        for request in plain:
            prefix = request.prefix
            if not self.shares_prefixes:
                prefix = tuple(range(block, block + len(prefix)))
                block += len(prefix)
            requests.append(msgspec.structs.replace(request, prefix=prefix, is_streamed=self.is_streamed))
        return requests


PLAIN = "plain"
ROWS = {
    row.name: row
    for row in (
        Row(name=PLAIN),
        Row(name="mixed-speeds", has_slow_half=True, target_s=2 * TARGET_S, share_of_rate=0.75),
        Row(name="shortest-first", shortest_first=True),
        Row(name="unstreamed", is_streamed=False),
        Row(name="no-prefix", shares_prefixes=False, share_of_rate=0.7),
    )
}
