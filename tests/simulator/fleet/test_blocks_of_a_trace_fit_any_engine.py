from hypothesis import given
from hypothesis import strategies as st

from headgate.simulator.fleet.blocks import engine_blocks, of_adapter


def chained(words):
    """Hashes as traces have them: each for all up to its block."""
    return tuple(hash(tuple(words[: end + 1])) & (2**63 - 1) for end in range(len(words)))


@given(
    st.lists(st.integers(0, 1), min_size=1, max_size=6),
    st.lists(st.integers(0, 1), min_size=1, max_size=6),
    st.integers(1, 40),
    st.integers(1, 40),
)
def test_prompts_share_engine_blocks_as_far_as_they_share_trace_blocks(one, other, block_tokens, block_size):
    """An engine block has the same hash in two prompts if, and only if, all of its tokens are the same."""
    common = 0
    while common < min(len(one), len(other)) and one[common] == other[common]:
        common += 1
    first, second = (
        engine_blocks(chained(words), block_tokens, len(words) * block_tokens, block_size)
        for words in (one, other)
    )
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    assert shared == common * block_tokens // block_size
    assert len(first) == len(one) * block_tokens // block_size
    assert not set(first[shared:]) & set(second[shared:])


def test_equal_sizes_keep_the_hashes():
    """So an index of prefixes and an engine speak of the same blocks; a last, partial block has none."""
    assert engine_blocks((7, 8, 9), 512, 1500, 512) == (7, 8)


def test_an_adapter_has_hashes_of_its_own():
    """The keys and values of an adapter are not those of the base model."""
    assert of_adapter((1, 2), "") == (1, 2)
    assert len({*of_adapter((1, 2), "a"), *of_adapter((1, 2), "b"), 1, 2}) == 6
