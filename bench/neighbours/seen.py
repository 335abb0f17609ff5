"""The results that the clients of a run got, and their summary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from headgate.simulator.fleet.summary import percentiles
from neighbours.traffic import NOISY


@dataclass(frozen=True, slots=True)
class Seen:
    """One request; seconds, None if no token arrived."""

    tenant: str
    asked_at_s: float
    prompt_tokens: int
    first_token_s: float | None
    ended_at_s: float


@dataclass(frozen=True)
class OverHttp:
    """Data on a run in real time, to judge whether the machine influenced it."""

    cores: float
    """CPU cores used by all processes of the run."""
    virtual_p99_s: float
    """`quiet_p99_s` of the same requests in virtual time, where CPU is never short."""


@dataclass(frozen=True)
class Outcome:
    """The summary of one run; times to first token in seconds."""

    quiet_p50_s: float
    quiet_p99_s: float
    worst_p99_s: float
    """Of the quiet tenant with the highest p99."""
    noisy_p50_s: float | None
    lost: int
    """Requests of quiet tenants without a response."""
    work_per_s: float
    """Prompt tokens served per second while tenants sent requests."""
    noisy_share: float
    """Share of that work."""
    over_http: OverHttp | None = None
    """None for a run in virtual time."""


def outcome(seen: Sequence[Seen], seconds: float, over_http: OverHttp | None = None) -> Outcome:
    """`seconds` is how long tenants sent requests."""
    by_tenant: defaultdict[str, list[float]] = defaultdict(list)
    work: defaultdict[str, int] = defaultdict(int)
    lost = 0
    for each in seen:
        if each.first_token_s is None:
            lost += each.tenant != NOISY
            continue
        by_tenant[each.tenant].append(each.first_token_s)
        if each.ended_at_s <= seconds:
            work[each.tenant] += each.prompt_tokens
    noisy = by_tenant.pop(NOISY, [])
    quiet = percentiles([time_s for times in by_tenant.values() for time_s in times])
    served = sum(work.values())
    return Outcome(
        quiet_p50_s=quiet.p50,
        quiet_p99_s=quiet.p99,
        worst_p99_s=max(percentiles(times).p99 for times in by_tenant.values()),
        noisy_p50_s=percentiles(noisy).p50 if noisy else None,
        lost=lost,
        work_per_s=served / seconds,
        noisy_share=work[NOISY] / served if served else 0.0,
        over_http=over_http,
    )
