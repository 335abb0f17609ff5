"""The sequences that decode on an endpoint: how many, and for how long."""

from __future__ import annotations


class DecodingSequences:
    """Requests of one endpoint past their prefill. Unstreamed requests all count, because their prefill is
    not visible."""

    __slots__ = ("_changed_at", "_total_s", "count", "elsewhere")

    def __init__(self) -> None:
        self.count = 0
        self.elsewhere = 0
        """The part of other gateways."""
        self._total_s = 0.0
        self._changed_at = 0.0

    def change(self, more: int, now: float) -> None:
        """Change their number by `more`."""
        self._total_s += self.count * (now - self._changed_at)
        self._changed_at = now
        self.count += more

    def report(self, elsewhere: int, now: float) -> None:
        """Set the number of those of other gateways."""
        self.change(elsewhere - self.elsewhere, now)
        self.elsewhere = elsewhere

    @property
    def own(self) -> int:
        """Those of this gateway."""
        return self.count - self.elsewhere

    def total_s(self, now: float) -> float:
        """Running sum of sequences times seconds. Its growth over an interval gives their mean number."""
        return self._total_s + self.count * (now - self._changed_at)
