"""Shares the queues of a process with other gateways or pickers of the same pools.

Reports go to all peers beside those of endpoints, ten times a second while anything is queued, and as soon as
nothing is any more. Each process
computes its own shares from what it has heard: there is no hub.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING, Final

import msgspec

from headgate.flow.sharing import Exchange, PoolReport
from headgate.flow.sharing.reports import NO_BOUND

if TYPE_CHECKING:
    from headgate.requests.queueing.pool_queue import PoolQueue

TELL_S: Final = 0.1
MAX_POOLS: Final = 10_000
MAX_BANDS: Final = 65
MAX_ROWS: Final = 64 * MAX_BANDS
"""Limits of one report; those of this version's queues are lower."""
_MAX_WEIGHT: Final = 1e9
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(dict[str, PoolReport]).decode


class PeerShares:
    """`queues` returns the queues of all pools."""

    def __init__(self, queues: Callable[[], Iterable[PoolQueue]]) -> None:
        self._queues = queues
        self._exchange: Exchange[str] = Exchange()
        self._own: dict[str, PoolReport] = {}
        """The last reports of pools with anything to report."""
        self._told_at = 0.0

    def changed(self) -> None:
        """Others have less, or more, in flight: queued requests may go."""
        for queue in self._queues():
            if queue.held:
                queue.wake()

    def report(self, now: float, *, is_heard: bool) -> bytes:
        """The reports that are due, encoded; empty if there are none. `is_heard`: whether there is anybody to
        hear them."""
        if 0.0 <= now - self._told_at < TELL_S and not self._is_drained():
            return b""
        self._told_at = now
        before, self._own = self._own.keys(), {}
        for queue in self._queues():
            tally = queue.tally
            if tally is None or not (queue.held or tally.came or tally.charges):
                continue
            came, tally.came = tally.came, Counter()
            charges = tally.charges.take()
            if is_heard:
                self._own[queue.name] = queue.report(came, charges, now)
        if not self._exchange.is_alone:
            self._use(now, before | self._own.keys())
        return _encode(self._own) if is_heard and (self._own or before) else b""

    def _is_drained(self) -> bool:
        """Whether a queue is empty that was not at the last report: then nobody need wait for it."""
        told = {name for name, report in self._own.items() if report.backlog}
        return bool(told) and any(not queue.held and queue.name in told for queue in self._queues())

    def hear(self, member: str, data: bytes, now: float) -> None:
        """Apply what a peer reports; `data` is empty if that has not changed. Raises ValueError."""
        if not self._exchange.knows(member):
            self._exchange.hear(member, decode(data) if data else {})
            self._use(now)
        elif data:
            self._use(now, self._exchange.hear(member, decode(data)))

    def forget(self, member: str, now: float) -> None:
        """A peer is gone."""
        if self._exchange.knows(member):
            self._exchange.forget(member)
            self._use(now)

    def _use(self, now: float, pools: Set[str] | None = None) -> None:
        """Compute and apply the shares of these pools, or of all."""
        names = set()
        for queue in self._queues():
            names.add(queue.name)
            if pools is None or queue.name in pools:
                own = self._own.get(queue.name) or queue.report({}, (), now)
                queue.take_peers_share(self._exchange.share(queue.name, own), now)
        self._exchange.keep(names)


def decode(data: bytes) -> dict[str, PoolReport]:
    """Reports by pool. Raises ValueError for what no process reports."""
    try:
        found = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a report of queues: {error}") from None
    if len(found) > MAX_POOLS:
        raise ValueError(f"a report of {len(found)} queues, of at most {MAX_POOLS}")
    for report in found.values():
        if (
            max(len(report.bands) / MAX_BANDS, len(report.backlog) / MAX_ROWS, len(report.charges) / MAX_ROWS)
            > 1
        ):
            raise ValueError("a report of a queue with too many bands or flows")
        if not all(0.0 < row.weight <= _MAX_WEIGHT and row.work >= 0 for row in report.backlog):
            raise ValueError("a report of a queue with an impossible weight")
        for waits in (report.all, *report.bands.values()):
            limits = waits.max_requests, waits.max_bytes
            if min(waits.requests, waits.bytes, waits.came) < 0 or min(limits) < NO_BOUND:
                raise ValueError("a report of a queue with a negative number")
    return found
