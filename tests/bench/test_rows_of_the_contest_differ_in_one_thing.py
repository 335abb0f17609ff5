"""The rows of the contest of routers: slow engines, short prompts first, unstreamed answers, no prefixes."""

import random

import pytest

from contest.policies import GATEWAYS, ORACLES, POLICIES, Published, Setup
from contest.replay import Replay
from contest.replicas import Fleet, Job, Replica
from contest.rows import ROWS
from contest.stepped import Stepped, describe
from headgate import routing, scheduling
from headgate.fleet import EndpointState
from headgate.traffic.traces import TimedRequest

ONE = Fleet(replicas=1, prefill_tokens_per_s=1024.0, cache_blocks=100)


def asked(at_s: float, *prefix: int, output_tokens: int = 5) -> TimedRequest:
    return TimedRequest(
        at_s=at_s,
        prompt_tokens=512 * len(prefix),
        output_tokens=output_tokens,
        prefix=prefix,
        block_tokens=512,
    )


def job(request: TimedRequest, now: float) -> Job:
    load = EndpointState(routing.Endpoint("a", "127.0.0.1", 8000))
    return Job(request, load.book(request.prompt_tokens, 0, now), now)


def order(fleet: Fleet, *requests: TimedRequest) -> list[tuple[tuple[int, ...], float]]:
    """Which prompts an engine has prefilled when, of requests that come while it does the first."""
    replica = Replica(fleet)
    done = [replica.arrive(job(request, request.at_s), request.at_s) for request in requests]
    assert done[1:] == [None] * len(requests[1:])
    served, next_done = [], done[0]
    while next_done is not None:
        now = next_done
        begun, next_done = replica.prefilled(now)
        served.append((begun.request.prefix, now))
    return served


FIRST, LONG, SHORT = asked(0.0, 1, 2), asked(0.1, 3, 4, 5, 6), asked(0.2, 7)


def test_an_engine_serves_in_order():
    """The second prompt waits for the first, and finds in the cache what both have."""
    assert order(ONE, asked(0.0, 1, 2), asked(0.25, 1, 2, 3)) == [((1, 2), 1.0), ((1, 2, 3), 1.5)]
    assert order(ONE, FIRST, LONG, SHORT) == [((1, 2), 1.0), ((3, 4, 5, 6), 3.0), ((7,), 3.5)]


def test_an_engine_may_take_the_shortest_first():
    """Of those that wait, but for the one that has waited for ten seconds."""
    fleet = ONE._replace(shortest_first=True)
    assert order(fleet, FIRST, LONG, SHORT) == [((1, 2), 1.0), ((7,), 1.5), ((3, 4, 5, 6), 3.5)]
    slow = fleet._replace(prefill_tokens_per_s=102.4)
    assert [prefix for prefix, _ in order(slow, FIRST, LONG, SHORT)] == [(1, 2), (7,), (3, 4, 5, 6)]
    slower = fleet._replace(prefill_tokens_per_s=51.2)
    assert [prefix for prefix, _ in order(slower, FIRST, LONG, SHORT)] == [(1, 2), (3, 4, 5, 6), (7,)]


def test_slow_engines_take_twice_as_long():
    """For prompts and for answers, in both kinds of engines; the others are as they were."""
    fleet = ROWS["mixed-speeds"].fleet(Fleet(replicas=4, prefill_tokens_per_s=1024.0, cache_blocks=100))
    replicas = [Replica(fleet, at) for at in range(4)]
    assert [replica.arrive(job(FIRST, 0.0), 0.0) for replica in replicas] == [1.0, 1.0, 2.0, 2.0]
    assert [replica.step_s for replica in replicas] == [0.02, 0.02, 0.04, 0.04]
    fast, slow = describe(fleet._replace(prefill_tokens_per_s=16_000.0), 1.0).groups
    assert (fast.count, slow.count) == (2, 2)
    work = {"decode_sequences": 3, "kv_tokens": 5000, "prefill_tokens": 2048}
    assert slow.engine.costs.step_seconds(**work) == 2 * fast.engine.costs.step_seconds(**work)


def test_a_row_without_prefixes_has_nothing_to_find():
    """Not even in a prompt that comes twice; sizes and times are as they were."""
    plain = [asked(0.0, 1, 2, 3), asked(9.0, 1, 2, 3), asked(18.0, 1, 2)]
    alone = ROWS["no-prefix"].requests(plain)
    assert [(each.at_s, each.prompt_tokens, len(each.prefix)) for each in alone] == [
        (each.at_s, each.prompt_tokens, len(each.prefix)) for each in plain
    ]
    blocks = [block for each in alone for block in each.prefix]
    assert len(set(blocks)) == len(blocks) == 8
    assert Replay(ONE, POLICIES["headgate"], 1).run(alone, 1.0).hit_rate == 0.0
    assert Replay(ONE, POLICIES["headgate"], 1).run(plain, 1.0).hit_rate == 5 / 8


class Told(Published):
    """Notes when it is told of what."""

    def __init__(self, setup: Setup, notes: list[tuple[str, float]]) -> None:
        super().__init__(setup)
        self.notes = notes

    def choose(self, request, loads, now, rng):
        return loads[0]

    def first_token(self, request, load, now):
        self.notes.append(("first token", now))

    def ended(self, request, load, now):
        super().ended(request, load, now)
        self.notes.append(("end", now))


@pytest.mark.parametrize("contest", [Replay, Stepped])
def test_nothing_is_seen_of_an_answer_in_one_piece_before_its_end(contest):
    """Neither by the ledger; what is measured is the engine's first token all the same."""
    fleet = Fleet(replicas=1, prefill_tokens_per_s=16_000.0, cache_blocks=100)
    plain = [asked(at * 5.0, at, output_tokens=50) for at in range(3)]
    notes: dict[bool, list[tuple[str, float]]] = {True: [], False: []}
    ttfts_s = {}
    for is_streamed, row in ((True, ROWS["plain"]), (False, ROWS["unstreamed"])):
        ran = contest(fleet, lambda setup, to=notes[is_streamed]: Told(setup, to), 1)
        ttfts_s[is_streamed] = ran.run(row.requests(plain), 1.0).ttfts_s
    assert ttfts_s[True] == ttfts_s[False]
    assert len(ttfts_s[True]) == 3
    streamed, whole = notes[True], notes[False]
    assert streamed[0][0] == "first token"
    assert streamed[0][1] < streamed[1][1]
    assert whole[0] == ("first token", whole[1][1])
    assert whole[1] == streamed[1]


@pytest.mark.parametrize("contest", [Replay, Stepped])
def test_a_router_whose_engines_stream_to_it_sees_first_tokens_always(contest):
    """A row of answers in one piece is nothing to it."""

    class Streamed(Told):
        sees_first_tokens = True

    fleet = Fleet(replicas=1, prefill_tokens_per_s=16_000.0, cache_blocks=100)
    notes: list[tuple[str, float]] = []
    requests = ROWS["unstreamed"].requests([asked(0.0, 1, output_tokens=50)])
    contest(fleet, lambda setup: Streamed(setup, notes), 1).run(requests, 1.0)
    assert notes[0][0] == "first token"
    assert notes[0][1] < 0.2


class Recorded(scheduling.Policy):
    """Another policy, and what it picks."""

    def __init__(self, policy: scheduling.Policy, picks: list[str]) -> None:
        self.policy, self.picks = policy, picks
        self.uses_prefix = policy.uses_prefix

    def pick(self, request, candidates, now, rng):
        choice = self.policy.pick(request, candidates, now, rng)
        self.picks.append(choice.load.endpoint.name)
        return choice

    def booked(self, request, choice, now):
        self.policy.booked(request, choice, now)


@pytest.mark.parametrize("name", GATEWAYS)
def test_a_gateway_is_not_told_which_engines_are_slow(name):
    """A burst is picked alike with and without slow engines, as no answer has shown them; an oracle knows."""
    rng = random.Random(3)
    burst = [asked(0.0, *range(100 * at, 100 * at + rng.randint(1, 40))) for at in range(40)]
    equal = Fleet(replicas=4, prefill_tokens_per_s=1_000.0, cache_blocks=400)

    def picks(fleet: Fleet, make) -> list[str]:
        noted: list[str] = []
        Replay(fleet, lambda setup: Recorded(make(setup), noted), 7).run(burst, 1.0)
        return noted

    assert picks(equal, GATEWAYS[name]) == picks(equal._replace(slow_replicas=2), GATEWAYS[name])


def test_an_oracle_knows_which_engines_are_slow():
    """It gives them less."""
    burst = [asked(0.001 * at, *range(100 * at, 100 * at + 20)) for at in range(60)]
    fleet = Fleet(replicas=4, prefill_tokens_per_s=16_000.0, cache_blocks=400, slow_replicas=2)
    in_time = Replay(fleet, ORACLES["oracle"], 7).run(burst, 1.0).ttfts_s[-1]
    assert in_time < Replay(fleet, GATEWAYS["round robin"], 7).run(burst, 1.0).ttfts_s[-1] / 1.3
