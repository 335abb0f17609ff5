"""The contest in virtual time: the gateway's own queue, policy and estimator over stepped engines."""

from __future__ import annotations

from collections.abc import Sequence

from headgate.fleet.prefix import PrefixIndex
from headgate.flow.queue import FlowSettings
from headgate.scheduling.predicted import PredictedFirstToken
from headgate.simulator.fleet import EngineGroup, FleetDescription, run_fleet
from headgate.traffic.traces import TimedRequest
from live import engines
from neighbours.seen import Seen

CACHE_TOKENS = 400_000
SCRAPE_S = 1.0


def run(
    asked: Sequence[TimedRequest], replicas: int, flow: FlowSettings | None, seed: int, slower: float = 1.0
) -> list[Seen]:
    """The results of all requests, in order; engines take `slower` times as long for everything."""
    group = EngineGroup(name="engine", engine=engines.config(CACHE_TOKENS, slower), count=replicas)
    description = FleetDescription(groups=(group,), scrape_s=SCRAPE_S, flow=flow)
    prefixes = PrefixIndex()
    done = run_fleet(asked, description, PredictedFirstToken(prefixes), seed=seed, prefixes=prefixes)
    return [
        Seen(
            tenant=request.tenant,
            asked_at_s=request.at_s,
            prompt_tokens=request.prompt_tokens,
            first_token_s=record.ttft_s if record.outcome == "served" else None,
            ended_at_s=record.ended_s,
        )
        for request, record in zip(asked, done.records, strict=True)
    ]


def carried(asked: Sequence[TimedRequest], replicas: int, seed: int, slower: float = 1.0) -> float:
    """Requests per second that the fleet serves if all of these are there from the beginning."""
    at_once = [_at_start(request) for request in asked]
    seen = run(at_once, replicas, None, seed, slower)
    ends = sorted(each.ended_at_s for each in seen)
    almost_all = ends[: len(ends) * 9 // 10]  # the last ones are alone in their engines
    return len(almost_all) / almost_all[-1]


def _at_start(request: TimedRequest) -> TimedRequest:
    return TimedRequest(at_s=0.0, prompt_tokens=request.prompt_tokens, output_tokens=request.output_tokens)
