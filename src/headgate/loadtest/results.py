"""The results of a run: what is kept of it in a file, and the figures that people and programs read."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Final

import msgspec

from headgate.loadtest.histogram import ERROR, Histogram
from headgate.loadtest.lag import BUSY, LATE_S, Burden
from headgate.loadtest.records import Slo, Tally

__all__ = ["Measured", "Results", "Times", "load", "results", "save"]

VERSION: Final = 1
MAX_FILE_BYTES: Final = 256 * 2**20
SHARES: Final = (0.5, 0.9, 0.95, 0.99)
_SHOWN_MODELS: Final = 5
_LATE: Final = 0.05
"""Share of requests that may be sent late before it is told."""


class Measured(msgspec.Struct, kw_only=True):
    """Everything about one run; `save` writes it."""

    version: int = VERSION
    headgate: str = ""
    url: str
    model: str
    began_at: str
    """ISO 8601."""
    configuration: dict[str, Any]
    """Everything that decides what is sent, and when."""
    is_streamed: bool = True
    is_interrupted: bool = False
    duration_s: float
    """From the first request being due to the end of the last response."""
    planned: int
    """Requests of the plan."""
    tally: Tally
    burdens: list[Burden] = []
    """Of each client process."""
    notes: list[str] = []


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution in seconds; null without any."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    requests: int
    failed: int
    cached_share: float | None
    """Share of prompt tokens that its cache had."""
    ttft_s: Times


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that were due from `at_s` on."""

    at_s: float
    requests: int
    failed: int
    output_tokens: int
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    itl_p50_s: float | None
    itl_p99_s: float | None


class Client(msgspec.Struct, frozen=True, kw_only=True):
    """What the run cost this client."""

    processes: int
    cpu_share: float
    """Of a core, of the busiest process."""
    cpu_us_per_request: float | None
    late_p99_s: float | None
    """How late the event loop of the slowest process was."""
    sent_late_s: Times
    """How late requests were sent, because the client was busy or too many were in flight."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    version: int
    headgate: str
    url: str
    model: str
    began_at: str
    configuration: dict[str, Any]
    interrupted: bool
    duration_s: float
    planned: int
    requests: int
    succeeded: int
    failed: int
    errors: dict[str, int]
    examples: dict[str, str]
    other_models: dict[str, int]
    """Successful requests that fallbacks sent to another model, by its name."""
    dropped: int
    """Not sent, because too many requests were in flight."""
    unfinished: int
    """Planned, but not sent or not complete: the run was interrupted, or an earlier turn failed."""
    requests_per_s: float
    """Successful ones."""
    prompt_tokens: int
    output_tokens: int
    planned_prompt_tokens: int
    planned_output_tokens: int
    prompt_tokens_per_s: float
    output_tokens_per_s: float
    cached_share: float
    ttft_s: Times
    tpot_s: Times
    itl_s: Times
    latency_s: Times
    percentile_error: float
    slo: Slo
    slo_share: float | None
    """Of all requests that were sent or dropped; null without objectives."""
    goodput_per_s: float | None
    endpoints: list[Endpoint]
    window_s: float
    windows: list[Window]
    client: Client
    notes: list[str]


def results(measured: Measured) -> Results:
    """The figures of a run."""
    tally, seconds = measured.tally, max(measured.duration_s, 1e-9)
    succeeded = tally.requests - tally.failed
    counted = tally.requests + tally.dropped
    has_slo = tally.slo.is_any
    return Results(
        version=measured.version,
        headgate=measured.headgate,
        url=measured.url,
        model=measured.model,
        began_at=measured.began_at,
        configuration=measured.configuration,
        interrupted=measured.is_interrupted,
        duration_s=measured.duration_s,
        planned=measured.planned,
        requests=tally.requests,
        succeeded=succeeded,
        failed=tally.failed,
        errors=dict(sorted(tally.errors.items(), key=lambda each: -each[1])),
        examples=tally.examples,
        other_models=dict(sorted(tally.other_models.items(), key=lambda each: -each[1])),
        dropped=tally.dropped,
        unfinished=measured.planned - counted,
        requests_per_s=succeeded / seconds,
        prompt_tokens=tally.prompt_tokens,
        output_tokens=tally.output_tokens,
        planned_prompt_tokens=tally.asked_tokens[0],
        planned_output_tokens=tally.asked_tokens[1],
        prompt_tokens_per_s=tally.prompt_tokens / seconds,
        output_tokens_per_s=tally.output_tokens / seconds,
        cached_share=_share(tally.cached_tokens, tally.prompt_tokens) or 0.0,
        ttft_s=_times(tally.ttft),
        tpot_s=_times(tally.tpot),
        itl_s=_times(tally.itl),
        latency_s=_times(tally.latency),
        percentile_error=ERROR,
        slo=tally.slo,
        slo_share=_share(tally.good, counted) if has_slo else None,
        goodput_per_s=tally.good / seconds if has_slo else None,
        endpoints=_endpoints(tally),
        window_s=tally.windows.width_s,
        windows=_windows(tally),
        client=_client(measured),
        notes=[*measured.notes, *_warnings(measured)],
    )


def save(measured: Measured, file: Path) -> None:
    """Write a run to a file, replacing it at once. Raises OSError."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_bytes(msgspec.json.encode(measured))
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def load(file: Path) -> Measured:
    """Read a saved run. Raises OSError, or ValueError with what is wrong."""
    if file.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"is longer than {MAX_FILE_BYTES >> 20} MiB, so that it cannot be a saved run")
    try:
        measured = msgspec.json.decode(file.read_bytes(), type=Measured)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"is no run that --save wrote: {error}") from None
    if measured.version != VERSION:
        raise ValueError(f"was saved in version {measured.version} of the format; this is version {VERSION}")
    return measured


def _times(found: Histogram) -> Times:
    if not found.count:
        return Times(count=0, mean=None, p50=None, p90=None, p95=None, p99=None, max=None)
    p50, p90, p95, p99 = found.percentiles(SHARES)
    return Times(count=found.count, mean=found.mean_s, p50=p50, p90=p90, p95=p95, p99=p99, max=found.most_s)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _endpoints(tally: Tally) -> list[Endpoint]:
    return [
        Endpoint(
            name=name,
            requests=each.requests,
            failed=each.failed,
            cached_share=_share(each.cached_tokens, each.prompt_tokens),
            ttft_s=_times(each.ttft),
        )
        for name, each in sorted(tally.endpoints.items())
    ]


def _windows(tally: Tally) -> list[Window]:
    return [
        Window(
            at_s=place * tally.windows.width_s,
            requests=part.requests,
            failed=part.failed,
            output_tokens=part.output_tokens,
            ttft_p50_s=_number(part.ttft.percentile(0.5)),
            ttft_p99_s=_number(part.ttft.percentile(0.99)),
            itl_p50_s=_number(part.itl.percentile(0.5)),
            itl_p99_s=_number(part.itl.percentile(0.99)),
        )
        for place, part in enumerate(tally.windows.parts)
    ]


def _client(measured: Measured) -> Client:
    burdens, requests = measured.burdens, measured.tally.requests
    cpu_s = sum(each.cpu_s for each in burdens)
    return Client(
        processes=len(burdens),
        cpu_share=max((each.share for each in burdens), default=0.0),
        cpu_us_per_request=1e6 * cpu_s / requests if requests else None,
        late_p99_s=_number(max((each.late.percentile(0.99) for each in burdens), default=math.nan)),
        sent_late_s=_times(measured.tally.late),
    )


def _warnings(measured: Measured) -> list[str]:
    tally, told = measured.tally, []
    share = max((each.share for each in measured.burdens), default=0.0)
    late_s = max((each.late.percentile(0.99) for each in measured.burdens), default=0.0)
    if share > BUSY:
        told.append(
            f"this client used {100 * share:.0f}% of a core, and the times include its delays: "
            "use more --workers"
        )
    elif late_s > LATE_S:
        told.append(
            f"this client woke up {1000 * late_s:.0f} ms late at p99, though it used only "
            f"{100 * share:.0f}% of a core: other processes of this machine delay it, and the times "
            "include that"
        )
    if tally.dropped:
        told.append(
            f"{tally.dropped} requests were dropped, because --max-in-flight were under way: "
            "they count as missed objectives, but have no times"
        )
    elif tally.late.percentile(1 - _LATE) > LATE_S:
        told.append(
            f"requests were sent late (p99 {tally.late.percentile(0.99):.2f} s, at most "
            f"{tally.late.most_s:.2f} s): their times count from when they were due"
        )
    if tally.other_models:
        others = sorted(tally.other_models.items(), key=lambda each: -each[1])[:_SHOWN_MODELS]
        told.append(
            f"{sum(tally.other_models.values())} of {tally.requests - tally.failed} responses are of another "
            f"model ({', '.join(f'{name}: {count}' for name, count in others)}): fallbacks sent them there"
        )
    planned, counted = tally.asked_tokens[1], tally.output_tokens
    if planned and abs(counted / planned - 1) > _LATE:
        told.append(
            f"responses have {counted / (tally.requests - tally.failed):.0f} tokens on average, not "
            f"the planned {planned / (tally.requests - tally.failed):.0f}"
        )
    return told
