import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.simulator.server.lengths import within, without_limit

TEXT = "/v1/completions"


async def lengths(server, prompts=64, **body):
    """Tokens and finish reason of the answers to as many prompts of one size."""
    prompt = [[number, number] for number in range(prompts)]
    answer = await server.client.post(TEXT, json={"model": "tiny", "prompt": prompt} | body)
    choices = answer.json()["choices"]
    return [(len(choice["text"].split()), choice["finish_reason"]) for choice in choices]


async def test_answers_end_by_themselves_within_their_limit(serve):
    """The end counts as a token and has no text; who reaches the limit ends with `length`."""
    async with serve(answer_lengths="sampled") as server:
        told = await lengths(server, max_tokens=12)
    assert {reason for _, reason in told} == {"stop", "length"}
    assert all(words == 12 if reason == "length" else words <= 10 for words, reason in told)
    assert len(set(told)) > 5


async def test_the_same_seed_gives_the_same_lengths(serve):
    """From every server; another seed gives others."""
    runs = []
    for seed in (1, 1, 2):
        async with serve(answer_lengths="sampled", seed=seed) as server:
            runs.append(await lengths(server, max_tokens=500))
    assert runs[0] == runs[1] != runs[2]


async def test_without_a_limit_lengths_are_around_forty(serve):
    """Nothing of it depends on the context where that is wide."""
    async with serve(answer_lengths="sampled") as server:
        told = [words + 1 for words, reason in await lengths(server, 128) if reason == "stop"]
    assert len(told) == 128
    assert 33 < sum(told) / 128 < 47


async def test_what_must_not_end_by_itself_has_the_whole_limit(serve):
    """`ignore_eos`; and `min_tokens` is held."""
    async with serve(answer_lengths="sampled") as server:
        assert set(await lengths(server, max_tokens=30, ignore_eos=True)) == {(30, "length")}
        assert min(words for words, _ in await lengths(server, max_tokens=30, min_tokens=20)) >= 19


async def test_a_limit_beyond_the_context_is_refused_all_the_same(serve, fast):
    """Though the answer itself might have fitted."""
    async with serve(answer_lengths="sampled", engine=fast(max_model_len=100)) as server:
        body = {"model": "tiny", "prompt": [1] * 50, "max_tokens": 51}
        answer = await server.client.post(TEXT, json=body)
    assert answer.status_code == 400
    assert "maximum context length is 100" in answer.json()["error"]["message"]


@given(st.integers(1, 5000), st.integers())
def test_a_length_is_within_the_limit(limit, seed):
    """Whatever the limit is, with six ranges or fewer."""
    rng = random.Random(seed)
    assert 1 <= within(limit, rng) <= limit
    assert 1 <= without_limit(limit, rng) <= limit


@pytest.mark.parametrize(
    ("limit", "ends"), [(60, (10, 20, 30, 40, 50, 60)), (500, (20, 40, 60, 460, 480, 500))]
)
def test_each_range_has_its_share(limit, ends):
    """Equal ranges up to 120 tokens; beyond that the fourth is wide."""
    rng = random.Random(7)
    drawn = 5000
    seen = Counter(
        next(number for number, end in enumerate(ends) if length <= end)
        for length in (within(limit, rng) for _ in range(drawn))
    )
    assert [seen[number] / drawn for number in range(6)] == pytest.approx(
        [0.2, 0.3, 0.2, 0.05, 0.1, 0.15], abs=0.03
    )
