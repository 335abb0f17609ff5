"""What engines tell of their caches goes before what is believed of them."""

from array import array

import msgspec
import pytest

from headgate import fleet, routing
from headgate.fleet.prefix import ExactIndex, PrefixIndex, account, kv_events, residency
from headgate.fleet.prefix.account import TooManyBlocksError
from headgate.fleet.prefix.chains import PromptChains
from headgate.fleet.prefix.exact import MAX_CHAINS

BLOCK = 4
"""Tokens."""
BYTES_BLOCK_TOKENS = 8
"""Of a block of bytes in these tests: two blocks of tokens."""


def load(place):
    return fleet.EndpointState(routing.Endpoint(f"default/pod-{place}", "127.0.0.1", 8000 + place))


def stored(tokens, medium="GPU", adapter="", extra=""):
    """A whole prompt, as an engine tells of it that calls its blocks by all tokens before."""
    count = len(tokens) // BLOCK
    names = tuple(hash((tuple(tokens[: (n + 1) * BLOCK]), adapter, extra)) for n in range(count))
    return kv_events.Stored(
        hashes=names,
        parent=None,
        tokens=array("I", tokens[: count * BLOCK]),
        block_tokens=BLOCK,
        adapter=adapter,
        medium=medium,
        extra=extra,
    )


def removed(event, *places, medium="GPU"):
    return kv_events.Removed(hashes=tuple(event.hashes[place] for place in places), medium=medium)


class Setting:
    """An index, one engine that publishes, one that does not, and a prompt of ten blocks of bytes."""

    def __init__(self, is_complete=True):
        self.index = PrefixIndex()
        self.exact = self.index.exact = ExactIndex()
        self.residency = self.exact.residency
        self.telling, self.other = load(0), load(1)
        self.residency.begin(self.telling)
        self.residency.set_complete(self.telling, is_complete)
        self.tokens = list(range(100, 100 + 10 * BYTES_BLOCK_TOKENS))
        self.prefix = [hash(("p", n)) for n in range(10)]

    def tell(self, event):
        self.residency.apply(self.telling, event)
        self.residency.validate()

    def learn(self, now=1.0):
        shares = [(n + 1) / 10 for n in range(10)]
        self.exact.learn(self.prefix, shares, array("I", self.tokens), "", self.telling, now)

    def matched(self):
        return self.index.matched(self.prefix, [self.telling, self.other])


def test_what_is_held_is_known_without_having_been_sent():
    """Another gateway sent the prompt there: the engine tells of it."""
    setting = Setting()
    setting.tell(stored(setting.tokens))
    assert setting.matched() == [0, 0]
    setting.learn()
    assert setting.matched() == [10, 0]


def test_slower_memory_counts_for_less():
    """S12: three blocks on the accelerator and one that is not are worth 3.8 of 4, and 3 whole ones."""
    setting = Setting()
    setting.prefix, setting.tokens = setting.prefix[:4], setting.tokens[: 4 * BYTES_BLOCK_TOKENS]
    setting.tell(stored(setting.tokens[: 3 * BYTES_BLOCK_TOKENS]))
    setting.tell(stored(setting.tokens, medium="CPU"))
    shares = [(n + 1) / 4 for n in range(4)]
    setting.exact.learn(setting.prefix, shares, array("I", setting.tokens), "", setting.telling, -1e9)
    setting.residency.sweep(1e9)
    loads = [setting.telling, setting.other]
    assert setting.index.weighed(setting.prefix, loads) == pytest.approx([3.8, 0.0])
    assert setting.matched() == [3, 0]


def test_what_was_evicted_is_not_believed():
    """The prompt was sent there and is believed on both; one engine tells that its end is gone."""
    setting = Setting()
    event = stored(setting.tokens)
    setting.tell(event)
    setting.learn()
    for each in (setting.telling, setting.other):
        setting.index.add(setting.prefix, each, 1.0)
    assert setting.matched() == [10, 10]
    setting.tell(removed(event, *range(9, 20)))
    matched, believed = setting.matched()
    assert 3 <= matched <= 5
    assert believed == 10


def test_an_engine_that_may_hold_more_is_believed_as_well():
    """What it stored before the gateway began was never told."""
    setting = Setting(is_complete=False)
    setting.tell(stored(setting.tokens[:20]))
    setting.learn()
    setting.residency.sweep(1e9)
    setting.index.add(setting.prefix, setting.telling, 1.0)
    setting.residency.sweep(1e9)
    assert setting.matched() == [10, 0]
    setting.residency.set_complete(setting.telling, True)
    assert setting.matched()[0] <= 3


def test_what_was_just_sent_is_expected():
    """Until the engine must have told of it; a burst of one prompt stays together meanwhile."""
    setting = Setting()
    setting.tell(stored([1, 2, 3, 4]))
    setting.learn(now=0.0)
    setting.residency.sweep(10.0)
    assert setting.matched() == [0, 0]
    setting.index.add(setting.prefix, setting.telling, 20.0)
    assert setting.matched() == [10, 0]
    setting.index.sweep(24.0)
    assert setting.matched() == [10, 0]
    setting.index.sweep(25.0)
    assert setting.matched() == [0, 0]
    setting.index.add(setting.prefix, setting.telling, 30.0)
    setting.tell(stored(setting.tokens))
    setting.index.sweep(40.0)
    assert setting.matched() == [10, 0]


def test_blocks_outside_of_the_accelerator_count_for_less():
    """Eight of ten, as they have to be loaded."""
    setting = Setting()
    event = stored(setting.tokens)
    setting.tell(event)
    setting.tell(stored(setting.tokens, medium="CPU"))
    setting.learn()
    assert setting.matched() == [10, 0]
    setting.tell(removed(event, *range(20)))
    assert setting.matched() == [8, 0]
    setting.tell(removed(event, *range(20), medium="CPU"))
    setting.residency.sweep(1e9)
    assert setting.matched() == [0, 0]


@pytest.mark.parametrize("other", [{"adapter": "sql"}, {"extra": "image"}])
def test_other_adapters_and_images_hold_other_blocks(other):
    """Their tokens alone do not tell."""
    setting = Setting()
    setting.tell(stored(setting.tokens, **other))
    setting.learn()
    setting.residency.sweep(1e9)
    assert setting.matched() == [0, 0]


def test_data_parallel_ranks_are_one_endpoint():
    """What one of them holds counts, until the last of them has dropped it."""
    setting = Setting()
    event = stored(setting.tokens)
    for rank in (0, 1):
        setting.residency.apply(setting.telling, event, rank)
    setting.learn()
    setting.residency.apply(setting.telling, removed(event, *range(20)), 0)
    assert setting.matched() == [10, 0]
    setting.residency.clear_rank(setting.telling, 1)
    setting.residency.validate()
    setting.residency.sweep(1e9)
    assert setting.matched() == [0, 0]


def test_an_engine_that_is_not_listened_to_any_more_is_believed():
    """Its account ends, and another engine gets its place."""
    setting = Setting()
    setting.tell(stored(setting.tokens))
    setting.learn()
    setting.index.add(setting.prefix[:4], setting.telling, 1.0)
    setting.residency.end(setting.telling)
    assert setting.matched() == [4, 0]
    setting.residency.begin(setting.other)
    setting.residency.apply(setting.other, stored([9, 9, 9, 9]))
    setting.residency.set_complete(setting.other, True)
    setting.residency.validate()
    assert setting.matched() == [4, 0]
    setting.index.remove(setting.other)
    assert setting.residency.loads() == []


def test_blocks_without_their_beginning_are_not_placed():
    """It was stored before the gateway listened."""
    setting = Setting()
    event = stored(setting.tokens)
    setting.residency.apply(
        setting.telling,
        kv_events.Stored(
            hashes=event.hashes[1:],
            parent=event.hashes[0],
            tokens=event.tokens[BLOCK:],
            block_tokens=BLOCK,
            adapter="",
            medium="GPU",
        ),
    )
    assert setting.exact.statistics()["unplaced"] == len(event.hashes) - 1
    assert setting.residency.blocks(setting.telling) == 0


def test_two_prompts_that_part_agree_on_what_they_share():
    """The place of a block was guessed too far in the first: the second corrects it."""
    chains = PromptChains(block_tokens=2)
    system = list(range(20))
    shares = [0.25, 0.75, 1.0]
    first = chains.learn([1, 2, 3], shares, array("I", system + [50] * 20), "")
    second = chains.learn([1, 2, 9], shares, array("I", system + [60] * 20), "")
    shared = residency.chain(array("I", system), 2, residency.front("", 2))
    assert first[0] in shared
    assert first[1] not in shared
    assert second[:2] == [first[0], first[0]]
    assert chains.of([1, 2, 4]) == [first[0], first[0]]
    assert chains.of([7]) == []


def test_known_prompts_are_bounded():
    """Those not used for longest leave."""
    chains = PromptChains(block_tokens=2, max_blocks=4)
    for n in range(10):
        chains.learn([n, n + 100], [0.5, 1.0], array("I", range(8)), "")
    assert len(chains) == 4
    assert chains.knows([9, 109])
    assert not chains.knows([0, 100])


def test_engines_share_a_bounded_number_of_blocks(monkeypatch):
    """One that tells of more than are free is not believed further; what it holds no more is free."""
    monkeypatch.setattr(account, "MAX_BLOCKS_TOGETHER", 40)
    setting, other = Setting(), load(1)
    setting.residency.begin(other)
    setting.tell(stored([1] * 20 * BLOCK))
    with pytest.raises(TooManyBlocksError, match="of all engines together 20 are in use"):
        setting.tell(stored([2] * BLOCK))
    event = stored([3] * 10 * BLOCK)
    setting.residency.apply(other, event)
    setting.residency.validate()
    assert setting.residency.blocks_together == 30
    with pytest.raises(TooManyBlocksError):
        setting.residency.apply(other, stored([4] * BLOCK))
    setting.residency.end(setting.telling)
    setting.residency.apply(other, stored([4] * 15 * BLOCK))
    setting.residency.apply(other, removed(event, 0))
    setting.residency.validate()
    assert setting.residency.blocks_together == 24


def test_lengths_of_blocks_by_which_prompts_are_known_are_bounded():
    """An engine may say another one with each of its lives."""
    setting = Setting()
    for block_tokens in range(1, 3 * MAX_CHAINS):
        setting.residency.begin(setting.telling)
        setting.residency.apply(setting.telling, of_length(block_tokens))
        setting.learn()
    assert setting.exact.statistics()["tokenized_blocks"] == MAX_CHAINS * len(setting.prefix)


def of_length(block_tokens):
    """A block that has so many tokens."""
    tokens = array("I", range(block_tokens))
    return msgspec.structs.replace(stored([1] * BLOCK), tokens=tokens, block_tokens=block_tokens)


def of_group(event, group, **more):
    return msgspec.structs.replace(event, group=group, **more)


def test_layers_that_keep_only_the_end_of_a_prompt_do_not_count():
    """A model's first layers may have a sliding window, and drop the front of a prompt that others keep."""
    setting = Setting()
    event = stored(setting.tokens)
    for prompt in (event, stored([7] * 40)):
        setting.tell(of_group(prompt, 0, is_whole=False))
        setting.tell(of_group(prompt, 1))
        setting.tell(of_group(prompt, 2))
    setting.learn()
    setting.residency.sweep(1e9)
    setting.tell(of_group(removed(event, *range(10)), 0))
    setting.tell(of_group(removed(event, *range(10)), 2))
    assert setting.matched() == [10, 0]
    setting.tell(of_group(removed(event, *range(20)), 1))
    assert setting.matched() == [0, 0]


def test_layers_of_one_kind_count_whatever_it_is():
    """A model may have none that keep all of a prompt."""
    setting = Setting()
    setting.tell(of_group(stored(setting.tokens), 0, is_whole=False))
    setting.tell(of_group(stored([7] * 40), 1, is_whole=False))
    setting.learn()
    setting.residency.sweep(1e9)
    assert setting.matched() == [10, 0]
    assert setting.residency.blocks(setting.telling) == len(setting.tokens) // BLOCK
