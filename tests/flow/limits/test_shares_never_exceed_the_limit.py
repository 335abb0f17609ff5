"""Whoever comes, goes, or hears answers late or never, shares of a limit add up to no more than it."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.flow.limits import Presence, Share, ShareBook
from headgate.flow.limits.shares import FLOOR, KEEP_S, RESERVE, WHOLE

ROUND_S = 3.0
MAX = 5
EVENTS = st.sampled_from(["nothing"] * 4 + ["comes", "dies", "leaves", "the book is lost"])
FATES = st.sampled_from(["heard"] * 4 + ["answered late", "answer lost", "delayed", "silent"])
USED = st.sampled_from([0.0, 0.01, 1.0, 1000.0])
ROUNDS = st.tuples(EVENTS, *[st.tuples(FATES, USED)] * MAX)


@dataclass
class Gateway:
    """As the test knows it."""

    name: str
    share: Share
    said_at: float = -1e9
    """When it said what it was last answered."""
    delayed: list[Presence] = field(default_factory=list)


class Gateways:
    """Some, and their book."""

    def __init__(self, count):
        self.now = 0.0
        self.book = ShareBook(self.now)
        self.names = 0
        self.all = []
        for _ in range(count):
            self.come()

    def come(self):
        self.names += 1
        self.all.append(Gateway(f"g{self.names}", Share(self.now)))

    def happens(self, event):
        if event == "comes" and len(self.all) < MAX:
            self.come()
        elif event == "dies" and len(self.all) > 1:
            self.all.pop(0)
        elif event == "leaves" and len(self.all) > 1:
            gateway = self.all.pop()
            self.book.note(gateway.name, gateway.share.presence(0.0, self.now, is_leaving=True), self.now)
        elif event == "the book is lost":
            self.book = ShareBook(self.now)
            for gateway in self.all:
                self.say(gateway, "heard", 1.0)

    def say(self, gateway, fate, used):
        """What was delayed comes after what is said now."""
        delayed, gateway.delayed = gateway.delayed, []
        if fate != "silent":
            self.hear(gateway, fate, gateway.share.presence(used * ROUND_S, self.now))
        for presence in delayed:
            self.book.note(gateway.name, presence, self.now)
        self.check()

    def hear(self, gateway, fate, presence):
        if fate == "delayed":
            gateway.delayed.append(presence)
            return
        said_at, standing = self.now, self.book.note(gateway.name, presence, self.now)
        if fate != "answer lost":
            self.now += 1.9 if fate == "answered late" else 0.0
            gateway.share.told(standing, said_at, self.now)
            gateway.said_at = said_at

    def check(self):
        """Who was not heard of for long is not known to be alive."""
        near = [each for each in self.all if self.now - each.said_at < KEEP_S]
        assert sum(each.share.fraction or 0.0 for each in near) <= 1.0


@settings(max_examples=50, deadline=None)
@given(st.integers(1, MAX), st.lists(ROUNDS, max_size=12))
def test_shares_never_exceed_the_limit(count, rounds):
    """Of all gateways that were heard of lately, at any time."""
    gateways = Gateways(count)
    settled = ("nothing", *[("heard", 1.0)] * MAX)
    for event, *fates in [settled] * 10 + rounds:
        gateways.happens(event)
        for gateway, (fate, used) in zip(list(gateways.all), fates, strict=False):
            gateways.say(gateway, fate, used)
        gateways.now += ROUND_S


@pytest.fixture
def settled():
    """Shares of gateways that use so much each second, for a minute."""

    def settle(*used):
        book = ShareBook(0.0)
        shares = [Share(0.0) for _ in used]
        for turn in range(1, 21):
            now = 3.0 * turn
            for name, (share, per_s) in enumerate(zip(shares, used, strict=True)):
                share.told(book.note(f"g{name}", share.presence(3.0 * per_s, now), now), now, now)
        return [share.fraction for share in shares]

    return settle


def test_shares_follow_use(settled):
    """Four gateways, of which one has nearly all of the load."""
    shares = settled(0.7, 0.2, 0.09, 0.01)
    fair = [FLOOR / 4 + (1 - FLOOR) * used for used in (0.7, 0.2, 0.09, 0.01)]
    assert shares == pytest.approx(fair, abs=0.04)
    assert 1 - RESERVE / WHOLE - 0.001 <= sum(shares) <= 1


def test_who_uses_nothing_keeps_a_floor(settled):
    """Load may move there while they cannot count together."""
    assert settled(5.0, 0.0)[1] == pytest.approx(FLOOR / 2, abs=0.01)


def test_where_nobody_uses_anything_shares_are_equal(settled):
    """As good a guess as any."""
    assert settled(0.0, 0.0, 0.0) == pytest.approx([1 / 3] * 3, abs=0.04)
