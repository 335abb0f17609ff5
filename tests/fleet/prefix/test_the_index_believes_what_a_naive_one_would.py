"""What endpoints are believed to hold is what a slow and obvious index says, whatever comes in what order."""

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate import fleet, routing
from headgate.fleet.prefix import PrefixIndex

ENDPOINTS = 4
LIMIT, TTL_S, STEP_S = 12, 640.0, 10.0

prompts = st.lists(st.integers(0, 1), min_size=1, max_size=6).map(tuple)
places = st.integers(0, ENDPOINTS - 1)


def blocks(prompt):
    """The hashes of a prompt of one-character blocks: each stands for all before it as well."""
    return [hash(prompt[: n + 1]) for n in range(len(prompt))]


def endpoint(place):
    return routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place)


class NaiveIndex:
    """For each endpoint, the prompts' fronts that it holds, with the time of their last use."""

    def __init__(self):
        self.used = [{} for _ in range(ENDPOINTS)]
        self.limits = [LIMIT] * ENDPOINTS

    def add(self, prompt, place, now):
        used = self.used[place]
        for n in range(len(prompt)):
            used[prompt[: n + 1]] = now
        self.cut(place)

    def cut(self, place):
        used = self.used[place]
        while len(used) > self.limits[place]:
            del used[min(used, key=lambda front: (used[front], -len(front)))]

    def matched(self, prompt):
        fronts = [prompt[: n + 1] for n in range(len(prompt))]
        return [sum(1 for _ in itertools.takewhile(used.__contains__, fronts)) for used in self.used]


class IndexMachine(RuleBasedStateMachine):
    """Prompts go to endpoints that restart, leave and come back, with caches of changing size."""

    def __init__(self):
        super().__init__()
        self.now = 1000.0
        self.ledger = fleet.Ledger()
        self.loads = [self.ledger.load(endpoint(place)) for place in range(ENDPOINTS)]
        self.index = PrefixIndex(default_limit=LIMIT, ttl_s=TTL_S)
        self.naive = NaiveIndex()
        self.asked = {(0,), (1, 1, 1)}

    @rule(prompt=prompts, place=places)
    def a_prompt_is_sent(self, prompt, place):
        self.now += STEP_S
        self.asked.add(prompt)
        self.index.add(blocks(prompt), self.loads[place], self.now)
        self.naive.add(prompt, place, self.now)

    @rule(place=places, limit=st.integers(1, 2 * LIMIT))
    def an_engine_tells_the_size_of_its_cache(self, place, limit):
        self.index.limit(self.loads[place], limit)
        self.naive.limits[place] = limit
        self.naive.cut(place)

    @rule(place=places)
    def an_engine_restarts(self, place):
        self.index.forget(self.loads[place])
        self.naive.used[place].clear()

    @rule(place=places)
    def an_endpoint_is_replaced(self, place):
        self.index.remove(self.loads[place])
        self.loads[place] = fleet.EndpointState(endpoint(place))
        self.naive.used[place].clear()
        self.naive.limits[place] = LIMIT

    @rule(place=places, ago=st.integers(0, 5))
    def blocks_turn_out_to_be_gone(self, place, ago):
        at = self.now - ago * STEP_S
        self.index.forget_until(at, self.loads[place])
        used = self.naive.used[place]
        self.naive.used[place] = {front: when for front, when in used.items() if when > at}

    @rule(steps=st.sampled_from([0, 1, 10, 60, 63, 64, 100]))
    def time_passes(self, steps):
        self.now += steps * STEP_S
        for _ in range(ENDPOINTS):
            self.index.sweep(self.now)
        oldest = self.now - TTL_S
        self.naive.used = [{f: t for f, t in used.items() if t > oldest} for used in self.naive.used]

    @invariant()
    def both_say_the_same_of_every_prompt(self):
        self.index.validate()
        for prompt in self.asked:
            assert self.index.matched(blocks(prompt), self.loads) == self.naive.matched(prompt)


TestIndex = IndexMachine.TestCase
TestIndex.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
