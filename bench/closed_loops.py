"""How much of a fleet's throughput remains with a queue when clients send the next request after each
response.

In virtual time. First a quiet time, in which few clients stream short responses to short prompts, so that the
gateway learns values that are wrong for nearly everything else. Then a mix of clients in closed loops, with
and without a queue in front of the engines.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from headgate import scheduling
from headgate.fleet.prefix import PrefixIndex
from headgate.flow.queue import FlowSettings
from headgate.simulator.fleet import EngineGroup, FleetDescription, FleetRun, run_fleet
from headgate.simulator.model import PROFILES, EngineConfig
from headgate.traffic.traces import TimedRequest

ENGINE = PROFILES["8b-h100"].config
ENGINES = 4
ENDLESS = FlowSettings(ttl_s=0, max_requests=0, max_bytes=0)
QUIET_S = 15.0
GETS_GOING_S = 5.0
"""After the quiet time: not measured, with or without the queue."""
THINK_S = 0.005
"""Between a response and the next request: network latency."""
VARIATION = 0.3
LENGTHS = 40
"""Each client cycles through this many different lengths."""


class Clients(NamedTuple):
    count: int
    prompt_tokens: int
    output_tokens: int
    is_streamed: bool = True
    priority: int | None = None
    """Of all of them; None for a tenth critical and the rest default."""


QUIET, LONG_FIRST = Clients(2, 7, 8), Clients(2, 4000, 8)
"""For each engine."""


class Mix(NamedTuple):
    name: str
    clients: tuple[Clients, ...]
    lasts_s: float = 30.0
    scrape_s: float = 0.5
    """How often the gateway reads each engine's metrics; 0 for engines without a metrics page."""
    engine: EngineConfig = ENGINE
    first: Clients | None = QUIET
    """Clients that precede the mix, for each engine."""


class Served(NamedTuple):
    per_s: float
    tokens_per_s: float
    """Of prompts and outputs."""
    work_s_per_s: float = 0.0
    """Engine time of the requests, excluding the fixed cost of each step."""
    critical_p50_s: float | None = None
    """Time to first byte of critical requests, if any."""
    critical_p95_s: float | None = None

    def share_of(self, other: Served) -> float:
        """The lower of the shares of requests and tokens of another result."""
        return min(self.per_s / other.per_s, self.tokens_per_s / other.tokens_per_s)


def share(mix: Mix, queued: Served, without: Served) -> float:
    """The remaining share of throughput. In mixes of unlike requests, the order decides which ones are served
    more often, so their work is compared.
    """
    if len(mix.clients) > 1:
        return queued.work_s_per_s / without.work_s_per_s
    return queued.share_of(without)


SMALL_BATCH = msgspec.structs.replace(ENGINE, max_num_seqs=64)
LONG_ANSWERS = "600 clients, 300 tokens, batches of 64"
MIN_SHARE = 0.98


def together(count: int, priority: int | None = 0) -> tuple[Clients, ...]:
    """Classification, embeddings, whole responses, streams, and long prompts: `count` clients of each."""
    kinds = ((7, 1, False), (300, 1, False), (60, 32, False), (200, 100, True), (1500, 32, True))
    return tuple(Clients(count, *kind, priority) for kind in kinds)


LONG_AND_SHORT = (Clients(32, 1500, 100), Clients(48, 60, 16))
MIXES = (
    Mix("1 client, 32 tokens, whole", (Clients(1, 60, 32, False),)),
    Mix("8 clients, 32 tokens, whole", (Clients(8, 60, 32, False),)),
    Mix("64 clients, 32 tokens, whole", (Clients(64, 60, 32, False),)),
    Mix("64 clients, 32 tokens, streamed", (Clients(64, 60, 32),)),
    Mix("64 clients, 1 token", (Clients(64, 7, 1, False),)),
    Mix("1,000 clients, 1 token", (Clients(1000, 7, 1, False),), 150.0),
    Mix("1,000 clients, 1 token, streamed", (Clients(1000, 7, 1),), 150.0),
    Mix("1,000 clients, 4 tokens, streamed", (Clients(1000, 7, 4),), 150.0),
    Mix("1,000 clients, 16 tokens, streamed", (Clients(1000, 7, 16),), 90.0),
    Mix("1,000 clients, 32 tokens, whole", (Clients(1000, 60, 32, False),), 60.0),
    Mix("64 clients, embeddings", (Clients(64, 300, 1, False),), 60.0),
    Mix("1,000 clients, embeddings", (Clients(1000, 300, 1, False),), 90.0),
    Mix("64 clients, prompts of 1,500, whole", (Clients(64, 1500, 32, False),), 200.0),
    Mix("200 clients, prompts of 1,500, streamed", (Clients(200, 1500, 32),), 200.0),
    Mix(f"{LONG_ANSWERS}, whole", (Clients(600, 60, 300, False),), 120.0, engine=SMALL_BATCH),
    Mix(f"{LONG_ANSWERS}, streamed", (Clients(600, 60, 300),), 120.0, engine=SMALL_BATCH),
    Mix(
        "500 clients, 8 tokens, streamed, 70b-8xh100",
        (Clients(500, 60, 8),),
        90.0,
        engine=PROFILES["70b-8xh100"].config,
    ),
    Mix("80 clients, long and short, streamed", (Clients(32, 1500, 100), Clients(48, 60, 16)), 200.0),
    Mix(
        "80 clients, long and short, whole",
        (Clients(32, 1500, 100, False), Clients(48, 60, 16, False)),
        200.0,
    ),
    Mix(
        "96 clients, classification beside streams", (Clients(32, 7, 1, False), Clients(64, 200, 300)), 400.0
    ),
    Mix("100 clients, five kinds", together(20), 200.0),
    Mix("1,000 clients, five kinds", together(200), 200.0),
    Mix("1,000 clients, five kinds, a tenth critical", together(200, None), 200.0),
    Mix("64 clients, 32 tokens, whole, sheddable", (Clients(64, 60, 32, False, -1),)),
    Mix("1,000 clients, 1 token, sheddable", (Clients(1000, 7, 1, False, -1),), 150.0),
    Mix("1,000 clients, 16 tokens, streamed, sheddable", (Clients(1000, 7, 16, True, -1),), 90.0),
    Mix("1,000 clients, five kinds, sheddable", together(200, -1), 200.0),
    Mix("64 clients, 32 tokens, whole, no metrics page", (Clients(64, 60, 32, False),), scrape_s=0.0),
    Mix("64 clients, 32 tokens, streamed, no metrics page", (Clients(64, 60, 32),), scrape_s=0.0),
    Mix("1,000 clients, 1 token, no metrics page", (Clients(1000, 7, 1, False),), 60.0, 0.0),
    Mix("100 clients, five kinds, no metrics page", together(20), 200.0, 0.0),
    Mix("64 clients, 32 tokens, whole, no quiet time", (Clients(64, 60, 32, False),), first=None),
    Mix("64 clients, 32 tokens, whole, after long prompts", (Clients(64, 60, 32, False),), first=LONG_FIRST),
    Mix("64 clients, 1 token, after long prompts", (Clients(64, 7, 1, False),), first=LONG_FIRST),
)
STORY = MIXES[2], MIXES[4], MIXES[3]
"""The mixes for which a limit learned from a quiet time costs most."""


def served(mix: Mix, flow: FlowSettings | None, *, engines: int = ENGINES, seed: int = 1) -> Served:
    """The fleet's throughput after the quiet time."""
    prefixes = PrefixIndex()
    fleet = FleetDescription(
        groups=(EngineGroup(name="e", engine=mix.engine, count=engines),), scrape_s=mix.scrape_s, flow=flow
    )
    policy = scheduling.PredictedFirstToken(prefixes)
    run = run_fleet(requests_of(mix, engines, seed), fleet, policy, seed=seed, prefixes=prefixes)
    return _judged(run, mix)


def counted_s(mix: Mix) -> tuple[float, float]:
    """The period in which responses count."""
    return QUIET_S + GETS_GOING_S, QUIET_S + mix.lasts_s


def requests_of(mix: Mix, engines: int, seed: int) -> Iterator[TimedRequest]:
    rng, session = random.Random(seed), 0
    first = () if mix.first is None else (mix.first._replace(count=mix.first.count * engines),)
    for from_s, until_s, groups in ((0.0, QUIET_S, first), (QUIET_S, QUIET_S + mix.lasts_s, mix.clients)):
        for clients in groups:
            for number in range(clients.count):
                priority = int(number % 10 == 0) if clients.priority is None else clients.priority
                yield from _loop(clients, from_s, until_s, session, priority, rng)
                session += 1


def _loop(
    clients: Clients, from_s: float, until_s: float, session: int, priority: int, rng: random.Random
) -> Iterator[TimedRequest]:
    """One client, which always has another request."""
    turns = [
        TimedRequest(
            at_s=from_s,
            think_s=THINK_S,
            prompt_tokens=_length(clients.prompt_tokens, rng),
            output_tokens=_length(clients.output_tokens, rng),
            session=session,
            priority=priority,
            is_streamed=clients.is_streamed,
            until_s=until_s,
        )
        for _ in range(LENGTHS)
    ]
    yield msgspec.structs.replace(turns[0], think_s=None)
    most = int((until_s - from_s) / (ENGINE.costs.base_s + ENGINE.costs.per_start_s))
    for number in range(most):
        yield turns[number % LENGTHS]


def _length(mean: int, rng: random.Random) -> int:
    variance = math.log1p(VARIATION**2)
    drawn = rng.lognormvariate(math.log(mean) - variance / 2, math.sqrt(variance))
    return max(1, round(drawn)) if mean > 1 else 1


def work_s(prompt_tokens: int, output_tokens: int, engine: EngineConfig) -> float:
    """Engine time that a request adds to steps."""
    costs, context = engine.costs, prompt_tokens + output_tokens / 2
    each_s = costs.per_decode_sequence_s + context * costs.per_kv_token_s
    return costs.per_start_s + prompt_tokens * costs.per_prefill_token_s + output_tokens * each_s


def _judged(run: FleetRun, mix: Mix) -> Served:
    from_s, until_s = counted_s(mix)
    records = [record for record in run.records if from_s <= record.ended_s < until_s]
    first = sorted(record.ttft_s for record in records if record.priority > 0 and record.ttft_s is not None)
    work = sum(work_s(each.prompt_tokens, each.output_tokens, mix.engine) for each in records)
    return Served(
        per_s=len(records) / (until_s - from_s),
        tokens_per_s=sum(each.prompt_tokens + each.output_tokens for each in records) / (until_s - from_s),
        work_s_per_s=work / (until_s - from_s),
        critical_p50_s=first[len(first) // 2] if first else None,
        critical_p95_s=first[int(len(first) * 0.95)] if first else None,
    )
