"""The traffic of the contest: public traces at several scales, and Poisson arrivals at public rates."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from headgate.simulator.autoscaling import Work, work_of
from headgate.simulator.fleet import Slo
from headgate.traffic import traces
from headgate.traffic.traces import TimedRequest

SPREAD_S = 5.0
"""Copies of a request, at a scale above 1, arrive within this many seconds of it."""
CHAT = Slo(ttft_s=2.0, tpot_s=0.1)
CODE = Slo(ttft_s=4.0, tpot_s=0.15)
"""Its longest prompts take 2 s alone, and its responses are short: a few steps beside prompts count."""
LONG = Slo(ttft_s=30.0, tpot_s=0.2)
"""For prompts of 12,000 tokens and more: the limits of the paper that published their trace."""


class Traffic(NamedTuple):
    """One trace at one scale."""

    name: str
    works: Sequence[Work]
    slo: Slo

    @property
    def seconds(self) -> float:
        return self.works[-1].at_s


class Source(NamedTuple):
    """A file of a trace, or of the rates of one with the file whose requests follow them."""

    file: str
    slo: Slo
    scales: tuple[float, ...]
    """Copies of each request; for rates, requests per second on average."""
    begins_s: float = 0.0
    ends_s: float = float("inf")
    requests: str = ""
    """For rates: the trace that has the sizes of requests."""


SOURCES = {
    "azure-conv": Source("azure_2023_conv.csv", CHAT, (1, 4)),
    "azure-code": Source("azure_2023_code.csv", CODE, (1, 4)),
    "mooncake-conv": Source("mooncake_conversation.jsonl", LONG, (1, 2)),
    "mooncake-synthetic": Source("mooncake_synthetic.jsonl", LONG, (1, 2)),
    "servegen-small": Source(
        "servegen_m_small_rate.csv", CHAT, (4, 12), 64_800, 86_400, "azure_2023_conv.csv"
    ),
    "servegen-mid": Source("servegen_m_mid_rate.csv", CHAT, (4, 12), 64_800, 86_400, "azure_2023_conv.csv"),
    "servegen-large": Source(
        "servegen_m_large_rate.csv", CHAT, (4, 12), 64_800, 86_400, "azure_2023_conv.csv"
    ),
    "servegen-r1": Source(
        "servegen_deepseek_r1_rate.csv", CHAT, (4, 12), 64_800, 86_400, "azure_2023_conv.csv"
    ),
}


def read(folder: Path, name: str, scale: float, *, limit_s: float = float("inf"), seed: int = 1) -> Traffic:
    """Raises OSError or TraceError."""
    source = SOURCES[name]
    rng = random.Random(f"{seed}/{name}/{scale}")
    if source.requests:
        requests = _by_rates(folder, source, scale, limit_s, rng)
    else:
        requests = _copies(_requests(folder / source.file, rng), round(scale), limit_s, rng)
    return Traffic(f"{name} x{scale:g}", work_of(requests), source.slo)


def _requests(path: Path, rng: random.Random) -> list[TimedRequest]:
    form = traces.Mooncake() if path.suffix == ".jsonl" else traces.Azure()
    with path.open("rb") as lines:
        requests = list(traces.requests(path.name, lines, form))
    return traces.arrange(requests, traces.Arrivals(jitter_s=traces.grid_s(requests)), rng)


def _copies(
    requests: Sequence[TimedRequest], scale: int, limit_s: float, rng: random.Random
) -> list[TimedRequest]:
    copies = [
        msgspec.structs.replace(
            each, prefix=(), at_s=max(0.0, each.at_s + (rng.uniform(-SPREAD_S, SPREAD_S) if copy else 0.0))
        )
        for each in requests
        if each.at_s < limit_s
        for copy in range(scale)
    ]
    return sorted(copies, key=lambda each: each.at_s)


def _by_rates(
    folder: Path, source: Source, mean_per_s: float, limit_s: float, rng: random.Random
) -> list[TimedRequest]:
    """Poisson arrivals at the rates of a curve, scaled to a mean; between its points, rates are linear."""
    with (folder / source.file).open("rb") as lines:
        curve = traces.read_curve(source.file, lines)
    points = [
        (starts - source.begins_s, rate)
        for starts, rate in zip(curve.starts_s, curve.rates_per_s, strict=False)
        if source.begins_s <= starts < source.ends_s
    ]
    factor = mean_per_s * len(points) / sum(rate for _, rate in points)
    sizes = _requests(folder / source.requests, rng)
    requests: list[TimedRequest] = []
    for (begins, rate), (ends, next_rate) in itertools.pairwise(points):
        most = max(rate, next_rate) * factor
        at_s = begins
        while most and (at_s := at_s + rng.expovariate(most)) < min(ends, limit_s):
            now = (rate + (next_rate - rate) * (at_s - begins) / (ends - begins)) * factor
            if rng.random() * most < now:
                size = sizes[rng.randrange(len(sizes))]
                requests.append(msgspec.structs.replace(size, at_s=at_s))
    return requests
