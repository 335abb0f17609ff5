"""A block may be in several tiers of an engine's memory: it is held until the last has dropped it."""

from array import array

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headgate import fleet, routing
from headgate.fleet.prefix import account, kv_events, residency, tiers
from headgate.fleet.prefix.account import TooManyBlocksError
from headgate.fleet.prefix.residency import Residency

BLOCK = 4
"""Tokens."""
PROMPT = list(range(40))


def load(place):
    return fleet.EndpointState(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place))


def names(tokens):
    """How engines call the blocks of a prompt: by all tokens up to their end."""
    return tuple(hash(tuple(tokens[:end])) for end in range(BLOCK, len(tokens) + 1, BLOCK))


def stored(tokens, medium="GPU", names_alone=False):
    told = names(tokens)
    return kv_events.Stored(
        hashes=told,
        parent=None,
        tokens=array("I", [] if names_alone else tokens[: len(told) * BLOCK]),
        block_tokens=BLOCK,
        adapter="",
        medium=medium,
    )


def removed(tokens, *places, medium="GPU"):
    told = names(tokens)
    return kv_events.Removed(hashes=tuple(told[place] for place in places), medium=medium)


def blocks_of(tokens):
    return residency.chain(array("I", tokens), BLOCK, residency.front("", BLOCK))


@pytest.fixture(name="telling")
def _telling():
    """A residency with one engine, and what it tells: `tell` its events, `worth` of PROMPT in blocks."""
    return Telling()


class Telling:
    def __init__(self):
        self.residency = Residency()
        self.load = load(0)
        self.residency.begin(self.load)

    def tell(self, *events, rank=0):
        for event in events:
            self.residency.apply(self.load, event, rank)
            self.residency.validate()

    def worth(self):
        """How many of PROMPT's ten blocks are held, and what these are worth."""
        held, worth = self.residency.held(blocks_of(PROMPT), self.residency.accounts([self.load]))
        return held[0], worth[0]


def test_a_block_that_leaves_one_tier_is_still_in_the_others(telling):
    """The host's memory drops what the disk has as well."""
    for medium in ("GPU", "CPU", "DISK"):
        telling.tell(stored(PROMPT, medium))
    assert telling.worth() == (10, 10.0)
    telling.tell(removed(PROMPT, *range(10)))
    assert telling.worth() == (10, pytest.approx(8.0))
    telling.tell(removed(PROMPT, *range(10), medium="CPU"))
    assert telling.worth() == (10, pytest.approx(5.0))
    telling.tell(removed(PROMPT, *range(10), medium="DISK"))
    assert telling.worth() == (0, 0.0)
    assert telling.residency.blocks(telling.load) == 0


def test_a_prompt_may_lie_in_several_tiers(telling):
    """Its first blocks are on the accelerator, the next in the host's memory, the last on a disk."""
    telling.tell(stored(PROMPT[:16]), stored(PROMPT[:28], "CPU"), stored(PROMPT[:36], "STORAGE"))
    assert telling.worth() == (9, pytest.approx(4 + 3 * 0.8 + 2 * 0.5))


@pytest.mark.parametrize("order", ["stored first", "removed first"])
def test_names_alone_are_enough_for_blocks_that_were_told_of_before(telling, order):
    """Lower tiers tell no tokens; what leaves the accelerator may be told before where it went."""
    telling.tell(stored(PROMPT))
    moved = [stored(PROMPT, "CPU", names_alone=True), removed(PROMPT, *range(10))]
    telling.tell(*(moved if order == "stored first" else reversed(moved)))
    assert telling.worth() == (10, pytest.approx(8.0))


def test_names_that_were_never_heard_stand_for_nothing(telling):
    """They are counted; the engine's other blocks are not in doubt."""
    telling.tell(stored(PROMPT, "CPU", names_alone=True))
    assert telling.worth() == (0, 0.0)
    assert telling.residency.unplaced == 10


def test_only_so_many_names_are_remembered(telling, monkeypatch):
    """Those that left first are forgotten first."""
    monkeypatch.setattr(account, "REMEMBERED", 4)
    telling.tell(stored(PROMPT), removed(PROMPT, *reversed(range(10))))
    telling.tell(stored(PROMPT, "CPU", names_alone=True))
    assert telling.worth() == (4, pytest.approx(3.2))


def test_a_disk_may_have_more_than_account_is_kept_of(telling, monkeypatch):
    """What is beyond is left out; the accelerator cannot have so much."""
    monkeypatch.setattr(account, "MAX_BLOCKS", 10)
    other = list(range(100, 140))
    telling.tell(stored(PROMPT), stored(other, "DISK"))
    assert telling.worth() == (10, 10.0)
    assert telling.residency.unplaced == 10
    with pytest.raises(TooManyBlocksError):
        telling.tell(stored(other))


@pytest.mark.parametrize(
    ("medium", "tier"),
    [
        ("GPU", tiers.GPU),
        ("gpu", tiers.GPU),
        ("CPU", tiers.HOST),
        ("CPU_PINNED", tiers.HOST),
        ("CPU_TIER1", tiers.HOST),
        ("DISK", tiers.STORAGE),
        ("STORAGE", tiers.STORAGE),
        ("CPU_TIER2", tiers.STORAGE),
        ("SHARED", tiers.STORAGE),
        ("SomeConnector", tiers.STORAGE),
    ],
)
def test_a_medium_is_one_of_three_tiers(medium, tier):
    """By the names of vLLM, SGLang and their connectors."""
    assert tiers.of_medium(medium) == tier


MEDIA = {"GPU": tiers.GPU, "CPU": tiers.HOST, "DISK": tiers.STORAGE}
LONGEST = ([0] * 4 * BLOCK, [0] * 2 * BLOCK + [1] * 2 * BLOCK)
prompts = st.builds(
    lambda whole, blocks: whole[: blocks * BLOCK], st.sampled_from(LONGEST), st.integers(3, 4)
)
places, ranks, media = st.integers(0, 1), st.integers(0, 1), st.sampled_from(list(MEDIA))


class ResidencyMachine(RuleBasedStateMachine):
    """Engines store and drop, are listened to anew; all that each tells is in a set."""

    def __init__(self):
        super().__init__()
        self.residency = Residency()
        self.loads = [load(place) for place in range(2)]
        self.held, self.known = {}, {}
        """What was told of with its tokens, by engine, since it was listened to."""
        self.now = 0.0
        for place in range(2):
            self.begin(place)

    def begin(self, place):
        self.residency.begin(self.loads[place])
        self.held[place], self.known[place] = set(), set()

    @rule(place=places, prompt=prompts, medium=media, rank=ranks, names_alone=st.booleans())
    def store(self, place, prompt, medium, rank, names_alone):
        self.residency.apply(self.loads[place], stored(prompt, medium, names_alone), rank)
        told = {(front, rank) for front in fronts(prompt)}
        if not names_alone:
            self.known[place] |= told
        self.held[place] |= {(front, MEDIA[medium], rank) for front, _ in told & self.known[place]}

    @rule(place=places, prompt=prompts, start=st.integers(0, 3), medium=media, rank=ranks)
    def remove(self, place, prompt, start, medium, rank):
        """The end of a prompt. Slower tiers may drop the middle, an accelerator drops no block that another
        follows."""
        gone = fronts(prompt)[start:]
        tier, held = MEDIA[medium], self.held[place]
        followed = {front[:-BLOCK] for front, *where in held if where == [tier, rank] and front not in gone}
        if tier == tiers.GPU and followed & set(gone):
            return
        self.residency.apply(
            self.loads[place], removed(prompt, *range(start, start + len(gone)), medium=medium), rank
        )
        self.held[place] = held - {(front, tier, rank) for front in gone}

    @rule(place=places, rank=ranks, chance=st.integers(0, 7))
    def begin_anew(self, place, rank, chance):
        """Seldom: a rank that clears its cache, or an engine that is listened to anew."""
        if chance == 0:
            self.residency.end(self.loads[place])
            self.begin(place)
        elif chance == 1:
            self.residency.apply(self.loads[place], kv_events.Cleared(), rank)
            self.held[place] = {each for each in self.held[place] if each[2] != rank}
            self.known[place] = {each for each in self.known[place] if each[1] != rank}

    @rule(place=places, prompt=prompts)
    def expect(self, place, prompt):
        self.residency.expect(self.loads[place], blocks_of(prompt), self.now)
        self.now += 100.0
        self.residency.sweep(self.now)

    @invariant()
    def what_is_held_is_what_was_told(self):
        self.residency.validate()
        for prompt in LONGEST:
            accounts = self.residency.accounts(self.loads)
            held, worth = self.residency.held(blocks_of(prompt), accounts)
            for place in range(2):
                reached = [self.reach(place, prompt, tier) for tier in range(tiers.TIERS)]
                further = [more - fewer for more, fewer in zip(reached, [0, *reached], strict=False)]
                assert held[place] == reached[-1]
                assert worth[place] == pytest.approx(
                    sum(map(float.__mul__, tiers.WEIGHTS, map(float, further)))
                )

    def reach(self, place, prompt, slowest):
        """How many blocks are held from the front, in any tier that is not slower."""
        held = {front for front, tier, _ in self.held[place] if tier <= slowest}
        each = fronts(prompt)
        return next((n for n, front in enumerate(each) if front not in held), len(each))


def fronts(prompt):
    return [tuple(prompt[:end]) for end in range(BLOCK, len(prompt) + 1, BLOCK)]


TestResidency = ResidencyMachine.TestCase
TestResidency.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
