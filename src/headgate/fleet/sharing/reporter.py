"""Makes this member's reports from its ledger and its journal."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from headgate.fleet.sharing.journal import Entry, Journal, packed
from headgate.fleet.sharing.reports import MAX_ENDPOINTS, Address, Load, Prompt, Report

if TYPE_CHECKING:
    from headgate.fleet.ledger import EndpointState, Ledger

WHOLE_S: Final = 0.5
"""A whole report at least this often, which also shows that the member lives. It replaces lost ones."""

_Key = tuple[float, ...]


class Reporter:
    """The figures of endpoints are compared with those of the last report, so requests need not mark
    anything: a report costs a microsecond for each endpoint in use."""

    def __init__(self, ledger: Ledger, journal: Journal) -> None:
        self._ledger = ledger
        self._journal = journal
        self._number = 0
        self._reported: dict[EndpointState, _Key] = {}
        """Endpoints with work of ours in the last report, and the figures then."""
        self._whole_at = -math.inf

    def changes(self, now: float, queues: bytes = b"") -> Report | None:
        """The changes since the last report to all; None if there are none, and no whole report is due.
        `queues`: the report of queues, if there is one to send."""
        if now - self._whole_at >= WHOLE_S:
            self._whole_at = now
            self._reported = {load: _key_of(load) for load in self._ledger.loads() if load.own_requests}
            return self._whole(now, self._journal.take(), queues)
        places = _Places()
        loads = []
        for load in self._ledger.loads():
            key = _key_of(load) if load.own_requests else None
            if key != self._reported.get(load):
                self._remember(load, key)
                loads.append(_report_of(load, places.of(load), now))
        prompts = _prompts(self._journal.take(), places)
        if not (loads or prompts or queues):
            return None
        return self._report(places, loads[:MAX_ENDPOINTS], prompts, queues, is_whole=False)

    def whole(self, now: float) -> Report:
        """All that a member needs that has just joined: the loads, and the recent prompts."""
        return self._whole(now, self._journal.recent())

    def _whole(self, now: float, entries: Iterable[Entry], queues: bytes = b"") -> Report:
        places = _Places()
        used = [load for load in self._ledger.loads() if load.own_requests][:MAX_ENDPOINTS]
        loads = [_report_of(load, places.of(load), now) for load in used]
        return self._report(places, loads, _prompts(entries, places), queues, is_whole=True)

    def _report(
        self, places: _Places, loads: list[Load], prompts: list[Prompt], queues: bytes, *, is_whole: bool
    ) -> Report:
        self._number += 1
        return Report(self._number, is_whole, places.addresses, loads, prompts, queues)

    def _remember(self, load: EndpointState, key: _Key | None) -> None:
        if key is None:
            self._reported.pop(load, None)
        else:
            self._reported[load] = key


class _Places:
    """The endpoints of one report."""

    def __init__(self) -> None:
        self.addresses: list[Address] = []
        self._places: dict[EndpointState, int] = {}

    def of(self, load: EndpointState) -> int:
        place = self._places.get(load)
        if place is None:
            place = self._places[load] = len(self.addresses)
            endpoint = load.endpoint
            self.addresses.append(Address(endpoint.name, endpoint.host, endpoint.port))
        return place


def _key_of(load: EndpointState) -> _Key:
    """What changes whenever the report of an endpoint does, except for the time that has passed."""
    elsewhere = load.elsewhere
    return (
        load.started,
        load.own_requests,
        load.decoding - elsewhere.begun,
        load.prefill_tokens - elsewhere.prefill_tokens,
        load.estimator.progress,
    )


def _report_of(load: EndpointState, place: int, now: float) -> Load:
    elsewhere, estimator = load.elsewhere, load.estimator
    if not load.own_requests:
        return Load(place)
    owed_tokens, head_tokens, since = estimator.own_queue(now)
    return Load(
        place,
        load.own_requests,
        estimator.decoding.own,
        load.decoding - elsewhere.begun,
        load.prefill_tokens - elsewhere.prefill_tokens,
        load.unseen_tokens - elsewhere.unseen_tokens,
        load.output_tokens - elsewhere.output_tokens,
        owed_tokens,
        head_tokens,
        max(now - since, 0.0) if since > -math.inf else -1.0,
        load.started,
        estimator.prefilled_tokens,
    )


def _prompts(entries: Iterable[Entry], places: _Places) -> list[Prompt]:
    return [
        Prompt(places.of(load), packed(hashes), size, answered) for load, hashes, size, answered in entries
    ]
