"""What `headgate simulate trace` found: the document that it prints as JSON, from which text and plots come.

Field names are stable: fields may be added. Nothing in it depends on the machine or the clock, so that equal
configurations and seeds give equal bytes.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headgate.simulator.fleet import RequestRecord, Summary
from headgate.simulator.fleet.records import EngineRecord
from headgate.simulator.replay import Found, Series

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
    """By the trace, before the rate was changed."""
    rate_per_s: float
    """By the trace, before it was changed."""
    prompt_tokens: int
    output_tokens: int
    sessions: int
    """Conversations: requests that go on where others ended; 0 where the trace says nothing of prefixes."""
    ideal_hit_rate: float | None
    """What one endless cache would find; None where the trace says nothing of prefixes."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """All that it takes to run it again."""

    trace: TraceUsed
    limit: int | None
    duration_s: float | None
    curve: str | None
    """The file whose course the rate has."""
    closed_loop: bool
    """Whether turns of a conversation wait for the answer to the one before."""
    jitter_s: float
    rate_scale: float | None
    rate_per_s: float | None
    rates_per_s: list[float]
    find_rate_at: float | None
    """With --find-rate: the share of requests whose first token is to be in time."""
    policies: list[str]
    policy_files: list[str]
    seed: int
    slo: dict[str, float | None]
    fleet: Any
    """As a fleet file has it, with its defaults."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One policy at one rate."""

    policy: str
    interrupted: bool
    simulated_s: float
    """Until the last request ended."""
    summary: Summary
    ttft_in_time: float
    """The share of all requests whose first token came in time, whatever the tokens after it."""
    tenants: dict[str, Summary]
    """Of each tenant's requests; empty where the traffic tells of none."""
    endpoints: tuple[EngineRecord, ...]
    retries_denied: int
    """Requests that were not tried again because the retry budget was spent."""
    series: Series
    highest_rate: Found | None = None
    """With --find-rate: how this rate was found."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The whole document."""

    version: int
    headgate: str
    configuration: Configuration
    notes: list[str]
    runs: list[Run]

    def json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()


class Drawn(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its requests, which plots need and the document does not have."""

    run: Run
    label: str
    """The policy, and the rate where there are several."""
    records: tuple[RequestRecord, ...]
