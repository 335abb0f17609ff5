"""The sequences that decode on an endpoint: how many, and for how long."""

from __future__ import annotations


class DecodingSequences:
    """Requests of one endpoint past their prefill. Unstreamed requests all count, because their prefill is
    not visible."""

    __slots__ = ("_changed_at", "_total_s", "count")

    def __init__(self) -> None:
        self.count = 0
        self._total_s = 0.0
        self._changed_at = 0.0

    def change(self, more: int, now: float) -> None:
        """Change their number by `more`."""
        self._total_s += self.count * (now - self._changed_at)
        self._changed_at = now
        self.count += more

    def total_s(self, now: float) -> float:
        """Running sum of sequences times seconds. Its growth over an interval gives their mean number."""
        return self._total_s + self.count * (now - self._changed_at)
