"""Endpoints that rejected a request, until another endpoint's response shows whose fault it was."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from headgate.fleet import blame
from headgate.fleet.ledger import EndpointState

ACCEPTED_AFTER_S = 2.0
"""An endpoint that has worked on a request for this long does not reject it: rejections are fast."""


class Suspect(NamedTuple):
    """An endpoint and the status that it sent."""

    load: EndpointState
    status: int
    back_at: float | None
    """When it accepts requests again; None if it gave no time."""
    is_prefill: bool = False
    """Whether it was only to prefill the prompt for another."""

    @property
    def reason(self) -> str:
        """The failure reason, if it turns out to have failed."""
        return f"prefill_status_{self.status}" if self.is_prefill else f"status_{self.status}"


class Suspects:
    """The suspects of one request. They are avoided for a second, or as long as they asked for. Each that
    turns out to have failed is returned once, for the caller to count."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: list[Suspect] = []

    def add(
        self,
        load: EndpointState,
        status: int,
        now: float,
        back_at: float | None = None,
        *,
        is_prefill: bool = False,
    ) -> None:
        if back_at is None:
            load.suspected(now)
        self._of.append(Suspect(load, status, back_at, is_prefill))

    def rejected(
        self,
        load: EndpointState,
        status: int,
        back_at: float | None,
        statuses: blame.SharedStatuses,
        key: Callable[[], Hashable],
        may_retry: Callable[[float], bool],
        now: float,
    ) -> tuple[bool, list[Suspect]]:
        """Record that an endpoint rejected the request. Returns whether to retry on another one, and which
        endpoints have failed.

        `statuses` are those of its pool, with `key` as in `is_open`. `may_retry` gets the share of the retry
        budget to leave, and takes a retry if it returns True.
        """
        is_shared = self.have(status)
        is_open = statuses.is_open(status, key, now, is_shared=is_shared)
        if is_open and may_retry(blame.reserved(status)):
            self.add(load, status, now, back_at)
            return True, []
        if is_open and not self._of and back_at is None and status in blame.LIKELY_SHARED:
            statuses.alone(key(), load, status, now)
        if is_shared and status == blame.TOO_MANY:
            load.rested()
        failed = self.compare(status)
        if status in blame.UNAVAILABLE and not is_shared and back_at is None:
            failed.append(Suspect(load, status, None))
        return False, failed

    @property
    def are_open(self) -> bool:
        """Whether there are any."""
        return bool(self._of)

    def have(self, status: int) -> bool:
        return any(each.status == status for each in self._of)

    def back_at(self) -> list[float]:
        """When the suspects that gave a time accept requests again."""
        return [each.back_at for each in self._of if each.back_at is not None]

    def served(self) -> list[Suspect]:
        """Record that another endpoint serves the request: those that rejected it were at fault. Asking for
        fewer requests is no failure."""
        failed = [each for each in self._of if each.back_at is None]
        self._of.clear()
        return failed

    def prefilled(self) -> list[Suspect]:
        """Record that another endpoint has prefilled the prompt: those that rejected the prefill were at
        fault. This shows nothing about those that rejected the rest of the request."""
        failed = [each for each in self._of if each.is_prefill and each.back_at is None]
        self._of = [each for each in self._of if not each.is_prefill]
        return failed

    def compare(self, status: int) -> list[Suspect]:
        """Record that another endpoint has rejected the request too, and there is no further retry. Endpoints
        with the same status are not at fault, nor is any for a client's mistake; 0 is no status. If all
        returned 429, it may be a limit of that client, so other requests need not avoid them."""
        failed = []
        for each in self._of:
            if each.back_at is not None:
                if each.status == status == blame.TOO_MANY:
                    each.load.rested()
            elif each.status != status and each.status in blame.UNAVAILABLE:
                failed.append(each)
            else:
                each.load.cleared()
        self._of.clear()
        return failed
