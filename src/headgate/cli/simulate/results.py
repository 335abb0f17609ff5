"""Results of `headgate simulate trace`: the JSON document, from which tables and plots are made.

Field names are stable; fields may be added. Nothing depends on the machine or the clock, so equal
configurations and seeds produce equal bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import metadata
from typing import Any

import msgspec

from headgate.cli.simulate.plan import Plan
from headgate.simulator.fleet import RequestRecord, Summary
from headgate.simulator.fleet.records import EngineRecord
from headgate.simulator.replay import Found, Series
from headgate.traffic import traces

VERSION = 1


class TraceUsed(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic that was replayed."""

    source: str
    """The file, or the workload."""
    format: str
    """mooncake, azure, burstgpt or workload."""
    parameters: dict[str, float]
    """Of the workload."""
    requests: int
    first_to_last_s: float
    """As in the trace, before the rate was changed."""
    rate_per_s: float
    """As in the trace, before it was changed."""
    prompt_tokens: int
    output_tokens: int
    sessions: int
    """Conversations: requests that continue others; 0 if the trace has no prefix information."""
    ideal_hit_rate: float | None
    """The hit rate of one unlimited cache; None if the trace has no prefix information."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """Everything needed to repeat the replay."""

    trace: TraceUsed
    limit: int | None
    duration_s: float | None
    curve: str | None
    """The file that the course of the rate follows."""
    closed_loop: bool
    """Whether turns of a conversation wait for the previous response."""
    jitter_s: float
    rate_scale: float | None
    rate_per_s: float | None
    rates_per_s: list[float]
    find_rate_at: float | None
    """With --find-rate: the share of requests whose first token must be in time."""
    policies: list[str]
    policy_files: list[str]
    seed: int
    slo: dict[str, float | None]
    fleet: Any
    """As in a fleet file, with its defaults."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One policy at one rate."""

    policy: str
    interrupted: bool
    simulated_s: float
    """Until the last request ended."""
    summary: Summary
    ttft_in_time: float
    """Share of all requests whose first token was in time, whatever the later tokens."""
    tenants: dict[str, Summary]
    """By tenant; empty if the traffic names no tenants."""
    endpoints: tuple[EngineRecord, ...]
    retries_denied: int
    """Requests not retried because the retry budget was exhausted."""
    series: Series
    highest_rate: Found | None = None
    """With --find-rate: how this rate was found."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The complete document."""

    version: int
    headgate: str
    configuration: Configuration
    notes: list[str]
    runs: list[Run]

    def json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its requests, which plots need and the document omits."""

    run: Run
    label: str
    """The policy, and the rate if there are several."""
    records: tuple[RequestRecord, ...]


# From runs to the document.
def results(plan: Plan, drawn: Sequence[Drawn]) -> Results:
    """The document of these runs."""
    return Results(
        version=VERSION,
        headgate=metadata.version("headgate"),
        configuration=_configuration(plan),
        notes=[*_before(plan), *plan.notes, *_after(plan, drawn)],
        runs=[each.run for each in drawn],
    )


def _configuration(plan: Plan) -> Configuration:
    options, slo = plan.options, plan.slo
    return Configuration(
        trace=_trace(plan),
        limit=options.limit,
        duration_s=options.duration,
        curve=options.curve,
        closed_loop=options.closed_loop,
        jitter_s=plan.arrivals[0].jitter_s,
        rate_scale=options.rate_scale,
        rate_per_s=options.rate,
        rates_per_s=options.rates,
        find_rate_at=options.attain if options.find_rate else None,
        policies=[policy.name for policy in plan.policies],
        policy_files=list(options.policy_config),
        seed=options.seed,
        slo={"ttft_s": slo.ttft_s, "tpot_s": None if math.isinf(slo.tpot_s) else slo.tpot_s},
        fleet=msgspec.to_builtins(plan.file),
    )


def _trace(plan: Plan) -> TraceUsed:
    used, requests = plan.traffic, plan.traffic.requests
    return TraceUsed(
        source=used.source,
        format=used.format,
        parameters=used.parameters,
        requests=len(requests),
        first_to_last_s=requests[-1].at_s - requests[0].at_s,
        rate_per_s=traces.mean_rate(requests),
        prompt_tokens=sum(request.prompt_tokens for request in requests),
        output_tokens=sum(request.output_tokens for request in requests),
        sessions=len({request.session for request in requests if request.session >= 0}),
        ideal_hit_rate=traces.ideal_hit_rate(requests),
    )


def _before(plan: Plan) -> list[str]:
    """Notes on the traffic that affect how to read the numbers."""
    used, grid_s, jitter_s = plan.traffic, plan.traffic.grid_s, plan.arrivals[0].jitter_s
    notes = []
    if not any(request.prefix for request in used.requests):
        publishers = {"azure": "Azure's traces have", "burstgpt": "BurstGPT's traces have"}
        who = publishers.get(used.format, "this traffic has")
        notes.append(f"{who} no prefix hashes: there are no cache hits, and policies know no prefixes")
    if jitter_s and grid_s == jitter_s:
        notes.append(
            f"times are rounded to {grid_s:g} s: each request is delayed randomly by up to that "
            "(--jitter off disables this)"
        )
    elif jitter_s:
        notes.append(f"each request is delayed randomly by up to {jitter_s:g} s")
    elif grid_s:
        notes.append(f"times are rounded to {grid_s:g} s, which makes bursts: --jitter auto spreads them")
    context = max(group.engine.max_model_len for group in plan.fleet.groups)
    too_long = sum(request.prompt_tokens + request.output_tokens > context for request in used.requests)
    if too_long:
        notes.append(
            f"{too_long:,} of the requests are longer than any engine's context and are rejected: "
            f"max_model_len is {context:,}"
        )
    turns = sum(request.think_s is not None for request in used.requests)
    if turns:
        notes.append(
            f"{turns:,} of the requests are sent after the previous response and a pause: the slower the "
            "fleet, the later they arrive"
        )
    elif plan.options.closed_loop:
        notes.append("this traffic has no conversations: --closed-loop has no effect")
    if plan.options.curve is not None:
        notes.append(f"the rate follows {plan.options.curve}, scaled to the duration of the trace")
    return notes


def _after(plan: Plan, drawn: Sequence[Drawn]) -> list[str]:
    """Notes on the runs."""
    notes = []
    for each in drawn:
        found = each.run.highest_rate
        if found is not None and not found.rate_per_s:
            wanted = f"{100 * plan.options.attain:g}%"
            notes.append(
                f"{each.run.policy}: at no rate tried did {wanted} of the requests get their first token "
                "in time; the row shows the lowest rate"
            )
        if each.run.interrupted:
            notes.append(
                f"{each.label}: interrupted; the table includes only requests that had arrived by then"
            )
    return notes
