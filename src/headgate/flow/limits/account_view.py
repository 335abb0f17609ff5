"""A remote account as one of its members knows it: its limit, its level and its clock, by its last grant."""

from __future__ import annotations


class AccountClock:
    """Bounds of the account's clock, which is unknown to the member while a message travels."""

    __slots__ = ("_lead_s", "_sent_at", "_time")

    def __init__(self, time: float, sent_at: float, lead_s: float) -> None:
        """`time`: the account's, in response to a claim sent at `sent_at`. `lead_s`: minimum lead of the
        account's clock over ours."""
        self._time = time
        self._sent_at = sent_at
        self._lead_s = lead_s

    def updated(self, time: float, sent_at: float, now: float) -> AccountClock:
        """The clock after another grant. A slow claim shows less of the lead, because the account does not
        know its delay: so the largest counts that any grant has shown."""
        return AccountClock(time, sent_at, max(time - now, self._lead_s))

    def earliest(self, now: float) -> float:
        return now + self._lead_s

    def latest(self, now: float) -> float:
        return max(self._time + now - self._sent_at, self.earliest(now))


class AccountView:
    """The account of a budget. Its level is an estimate: nobody reports what other members have taken since
    the last grant."""

    __slots__ = ("clock", "epoch", "level", "limit", "seen_at", "unit_s")

    def __init__(self, limit: int, unit_s: int, now: float) -> None:
        self.limit = limit
        self.unit_s = unit_s
        self.epoch = ""
        """Which account it is; empty before the first grant."""
        self.level = float(limit)
        """Tokens in it at `seen_at`."""
        self.seen_at = now
        self.clock: AccountClock | None = None

    def filled(self, now: float) -> float:
        """The level if nobody else has taken tokens since."""
        return min(self.level + (now - self.seen_at) * self.limit / self.unit_s, self.limit)

    def set_level(self, level: float, now: float) -> None:
        self.level = level
        self.seen_at = now

    def learn(self, epoch: str, level: float, time: float, sent_at: float, now: float) -> None:
        """Apply the grant of a claim sent at `sent_at`: the account's level, and the time by its clock."""
        if self.clock is None or epoch != self.epoch:
            self.clock = AccountClock(time, sent_at, time - now)
        else:
            self.clock = self.clock.updated(time, sent_at, now)
        self.epoch = epoch
        self.set_level(level, now)
