"""What a queue leaves of a fleet's throughput where clients ask again when they are answered.

In virtual time. First a quiet time, in which few clients stream short answers to short prompts: what the
gateway learns is wrong for nearly everything else. Then a mix of clients in closed loops, before engines
without a queue in front of them and with one.
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
from headgate.simulator.traces import TimedRequest

ENGINE = PROFILES["8b-h100"].config
ENDLESS = FlowSettings(ttl_s=0, max_requests=0, max_bytes=0)
QUIET_S = 15.0
GETS_GOING_S = 5.0
"""After the quiet time: it is not measured, with or without the queue."""
THINK_S = 0.005
"""Between an answer and the next request: the network."""
VARIATION = 0.3
LENGTHS = 40
"""Each client asks for so many different lengths in turn."""


class Clients(NamedTuple):
    count: int
    prompt_tokens: int
    output_tokens: int
    is_streamed: bool = True


class Mix(NamedTuple):
    name: str
    clients: tuple[Clients, ...]
    lasts_s: float = 30.0
    scrape_s: float = 0.5
    """How often the gateway reads each engine; 0 is engines without a metrics page."""
    engine: EngineConfig = ENGINE


class Served(NamedTuple):
    per_s: float
    critical_p50_s: float
    """Time to the first byte, of the tenth that is critical."""
    critical_p95_s: float


QUIET = Clients(2, 7, 8)
"""For each engine."""
SMALL_BATCH = msgspec.structs.replace(ENGINE, max_num_seqs=64)
LONG_ANSWERS = "600 clients, 300 tokens, batches of 64"
TOGETHER = (Clients(40, 200, 100), Clients(40, 60, 32, False), Clients(40, 300, 1, False))
MIXES = (
    Mix("1 client, 32 tokens, whole", (Clients(1, 60, 32, False),)),
    Mix("8 clients, 32 tokens, whole", (Clients(8, 60, 32, False),)),
    Mix("64 clients, 32 tokens, whole", (Clients(64, 60, 32, False),)),
    Mix("64 clients, 32 tokens, streamed", (Clients(64, 60, 32),)),
    Mix("64 clients, 1 token", (Clients(64, 7, 1, False),)),
    Mix("1,000 clients, 1 token", (Clients(1000, 7, 1, False),)),
    Mix("1,000 clients, 32 tokens, whole", (Clients(1000, 60, 32, False),), 60.0),
    Mix("1,000 clients, 16 tokens, streamed", (Clients(1000, 7, 16),), 90.0),
    Mix("64 clients, embeddings", (Clients(64, 300, 1, False),)),
    Mix("1,000 clients, embeddings", (Clients(1000, 300, 1, False),), 90.0),
    Mix("64 clients, prompts of 1,500, whole", (Clients(64, 1500, 32, False),), 200.0),
    Mix("200 clients, prompts of 1,500, streamed", (Clients(200, 1500, 32),), 200.0),
    Mix(f"{LONG_ANSWERS}, whole", (Clients(600, 60, 300, False),), 120.0, engine=SMALL_BATCH),
    Mix(f"{LONG_ANSWERS}, streamed", (Clients(600, 60, 300),), 120.0, engine=SMALL_BATCH),
    Mix("120 clients: streams, whole answers, embeddings", TOGETHER, 60.0),
    Mix("64 clients, 32 tokens, whole, no metrics page", (Clients(64, 60, 32, False),), scrape_s=0.0),
    Mix("64 clients, 32 tokens, streamed, no metrics page", (Clients(64, 60, 32),), scrape_s=0.0),
    Mix("1,000 clients, 1 token, no metrics page", (Clients(1000, 7, 1, False),), scrape_s=0.0),
)


def served(mix: Mix, flow: FlowSettings | None, *, engines: int = 4, seed: int = 1) -> Served:
    """What the fleet makes of it after the quiet time."""
    prefixes = PrefixIndex()
    fleet = FleetDescription(
        groups=(EngineGroup(name="e", engine=mix.engine, count=engines),), scrape_s=mix.scrape_s, flow=flow
    )
    policy = scheduling.PredictedFirstToken(prefixes)
    run = run_fleet(requests_of(mix, engines, seed), fleet, policy, seed=seed, prefixes=prefixes)
    return _judged(run, QUIET_S + GETS_GOING_S, QUIET_S + mix.lasts_s)


def requests_of(mix: Mix, engines: int, seed: int) -> Iterator[TimedRequest]:
    rng, session = random.Random(seed), 0
    quiet = QUIET._replace(count=QUIET.count * engines)
    for from_s, until_s, groups in ((0.0, QUIET_S, (quiet,)), (QUIET_S, QUIET_S + mix.lasts_s, mix.clients)):
        for clients in groups:
            for number in range(clients.count):
                yield from _loop(clients, from_s, until_s, session, int(number % 10 == 0), rng)
                session += 1


def _loop(
    clients: Clients, from_s: float, until_s: float, session: int, priority: int, rng: random.Random
) -> Iterator[TimedRequest]:
    """One client, who never has nothing more to ask."""
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


def _judged(run: FleetRun, from_s: float, until_s: float) -> Served:
    records = [record for record in run.records if from_s <= record.ended_s < until_s]
    first = sorted(record.ttft_s for record in records if record.priority > 0 and record.ttft_s is not None)
    return Served(
        per_s=len(records) / (until_s - from_s),
        critical_p50_s=first[len(first) // 2],
        critical_p95_s=first[int(len(first) * 0.95)],
    )
