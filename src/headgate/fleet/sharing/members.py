"""What the other members have reported, added to this member's ledger and prefix index."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from headgate.fleet.elsewhere import NOTHING, Elsewhere
from headgate.fleet.sharing.journal import unpacked
from headgate.fleet.sharing.reports import MAX_ENDPOINTS, Load, Report
from headgate.routing import Endpoint

if TYPE_CHECKING:
    from headgate.fleet.ledger import EndpointState, Ledger
    from headgate.fleet.prefix import PrefixIndex

SILENT_S: Final = 2.0
"""A member that was not heard for this long counts as gone, and its requests with it."""
MAX_MEMBERS: Final = 64
"""Reports of more members are ignored."""


class _Known(NamedTuple):
    """A member's last load of one endpoint."""

    number: int
    """Of its report."""
    load: Load
    since: float
    """Since when the endpoint works on its prompts, by the clock here."""


class _Member:
    """One other member."""

    def __init__(self) -> None:
        self.heard_at = -math.inf
        self.whole = 0
        """Number of its latest whole report: older reports have no effect."""
        self.loads: dict[Endpoint, _Known] = {}


class Members:
    """The other members. A member is whatever identifies its process: one that restarts is another one."""

    def __init__(self, ledger: Ledger, prefixes: PrefixIndex) -> None:
        self._ledger = ledger
        self._prefixes = prefixes
        self._members: dict[Hashable, _Member] = {}
        self.ignored = 0
        """Reports beyond the limits."""

    def hear(self, who: Hashable, report: Report, now: float, *, same_hashes: bool = True) -> None:
        """Apply a report. `same_hashes`: whether the member hashes prompts as this process does."""
        member = self._members.get(who)
        if member is None:
            if len(self._members) >= MAX_MEMBERS:
                self.ignored += 1
                return
            member = self._members[who] = _Member()
        member.heard_at = max(member.heard_at, now)
        endpoints = [Endpoint(each.name, each.host, each.port) for each in report.endpoints]
        self._combine(self._take(member, report, endpoints, now), now)
        if same_hashes:
            self._learn(report, endpoints, now)

    def _take(self, member: _Member, report: Report, endpoints: list[Endpoint], now: float) -> set[Endpoint]:
        """Update a member's loads; returns the endpoints whose sums may have changed."""
        number, loads = report.number, member.loads
        if number <= member.whole:
            return set()
        changed = set()
        for load in report.loads:
            endpoint = endpoints[load.endpoint]
            known = loads.get(endpoint)
            if known is not None and known.number >= number:
                continue
            if known is None and len(loads) >= MAX_ENDPOINTS:
                self.ignored += 1
                continue
            since = now - load.since_s if load.since_s >= 0.0 else -math.inf
            loads[endpoint] = _Known(number, load, since)
            changed.add(endpoint)
            state = self._ledger.known(endpoint)
            if state is not None:
                came, served = load.requests, 0
                if known is not None:
                    came = load.started - known.load.started
                    served = load.prefilled_tokens - known.load.prefilled_tokens
                state.estimator.report_served(came, served)
        if report.is_whole:
            member.whole = number
            for endpoint in [each for each, known in loads.items() if known.number < number]:
                del loads[endpoint]
                changed.add(endpoint)
        return changed

    def _learn(self, report: Report, endpoints: list[Endpoint], now: float) -> None:
        """Record prompts in the prefix index, for endpoints that are known here."""
        index = self._prefixes
        for prompt in report.prompts:
            load = self._ledger.known(endpoints[prompt.endpoint])
            hashes = unpacked(prompt.hashes)
            if load is None or not hashes:
                continue
            if prompt.size:
                index.responded_to(hashes[0], prompt.size, load, prompt.answered)
            else:
                index.add_reported(hashes, load, now)

    def expire(self, now: float) -> list[Hashable]:
        """Forget members that have fallen silent, and return them; call it several times a second."""
        silent = [who for who, each in self._members.items() if now - each.heard_at >= SILENT_S]
        for who in silent:
            self.forget(who, now)
        return silent

    def forget(self, who: Hashable, now: float) -> None:
        """Forget a member that is gone."""
        member = self._members.pop(who, None)
        if member is not None:
            self._combine(member.loads, now)

    def forget_all(self, now: float) -> None:
        for who in list(self._members):
            self.forget(who, now)

    def refresh(self, now: float) -> None:
        """Apply all loads again, for endpoints that have become known; call it with each snapshot."""
        self._combine({endpoint for member in self._members.values() for endpoint in member.loads}, now)

    def _combine(self, endpoints: Iterable[Endpoint], now: float) -> None:
        for endpoint in endpoints:
            state = self._ledger.known(endpoint)
            if state is None:
                continue
            known = [each.loads[endpoint] for each in self._members.values() if endpoint in each.loads]
            elsewhere = _sum(known, state) if known else NOTHING
            if elsewhere != state.elsewhere:
                state.report(elsewhere, now)

    def heard_s(self, now: float) -> dict[Hashable, float]:
        """Seconds since each member was heard."""
        return {who: now - member.heard_at for who, member in self._members.items()}

    def statistics(self) -> dict[str, int]:
        return {
            "members": len(self._members),
            "loads": sum(len(member.loads) for member in self._members.values()),
            "ignored": self.ignored,
        }


def _sum(known: list[_Known], state: EndpointState) -> Elsewhere:
    """The sums over members. The endpoint serves all prompts one after the other, so it started on the next
    one at the last first token that any member saw."""
    loads = [each.load for each in known]
    since = max(each.since for each in known)
    token_s = state.estimator.rates.token_s
    owed_tokens = 0
    for each in known:
        owed = each.load.owed_tokens
        if not each.load.head_tokens and each.since > -math.inf:
            owed -= int((since - each.since) / token_s)
        owed_tokens += max(owed, 0)
    return Elsewhere(
        requests=sum(load.requests for load in loads),
        decoding=sum(load.decoding for load in loads),
        begun=sum(load.begun for load in loads),
        prefill_tokens=sum(load.prefill_tokens for load in loads),
        unseen_tokens=sum(load.unseen_tokens for load in loads),
        output_tokens=sum(load.output_tokens for load in loads),
        owed_tokens=owed_tokens,
        head_tokens=max(load.head_tokens for load in loads),
        since=since,
    )
