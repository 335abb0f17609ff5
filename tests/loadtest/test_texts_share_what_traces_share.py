import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.loadtest import Form, conversations
from headgate.loadtest.plan.conversations import Prompts, Turn
from headgate.loadtest.plan.dataset import DatasetError, conversations_of
from headgate.loadtest.plan.texts import Texts
from headgate.traffic.traces import TimedRequest
from headgate.traffic.workloads import WORKLOADS


def blocks(prefix: tuple[int, ...], tokens: int, size: int = 16) -> TimedRequest:
    return TimedRequest(at_s=0.0, prompt_tokens=tokens, output_tokens=1, prefix=prefix, block_tokens=size)


@given(
    st.integers(1, 3000),
    st.lists(st.integers(0, 2**60), min_size=2, max_size=2, unique=True),
    st.text(max_size=20),
)
def test_texts_have_as_many_words_as_tokens(tokens: int, numbers: list[int], salt: str) -> None:
    """With and without blocks; four bytes each, as simulated engines count."""
    texts = Texts(salt)
    plain = TimedRequest(at_s=0.0, prompt_tokens=tokens, output_tokens=1)
    shared = blocks(tuple(range(-(-tokens // 16))), tokens)
    for request in (plain, shared):
        text = texts.prompt(request, "a")
        assert len(text) == 4 * tokens - 1
        assert len(text.split()) == tokens
    assert texts.words(str(numbers[0]), 40)[:32] != texts.words(str(numbers[1]), 40)[:32]


def test_prompts_share_text_exactly_as_far_as_blocks() -> None:
    """Equal blocks are equal text, and the next block differs from its first words on."""
    texts = Texts("s")
    first = texts.prompt(blocks((1, 2, 3), 48), "a")
    second = texts.prompt(blocks((1, 2, 4), 40), "b")
    assert first[: 4 * 32] == second[: 4 * 32]
    assert first[4 * 32 : 4 * 40] != second[4 * 32 : 4 * 40]


def test_another_salt_is_another_text() -> None:
    """So that no cache has it from an earlier run."""
    request = blocks((1, 2), 32)
    assert Texts("a").prompt(request, "x") == Texts("a").prompt(request, "x")
    assert Texts("a").prompt(request, "x")[:32] != Texts("b").prompt(request, "x")[:32]


def test_lengths_are_those_of_the_published_sample() -> None:
    """On average, and no request is longer than the sample's longest."""
    made = WORKLOADS["independent"](requests=20_000).generate(random.Random(1))
    assert sum(each.prompt_tokens for each in made) / len(made) == pytest.approx(215, rel=0.05)
    assert sum(each.output_tokens for each in made) / len(made) == pytest.approx(198, rel=0.05)
    assert max(each.prompt_tokens + each.output_tokens for each in made) <= 2048


def test_fixed_lengths_are_fixed() -> None:
    """Without variation; also if the average is longer than the longest."""
    parameters = {"requests": 10, "variation": 0, "prompt_tokens": 4000, "output_tokens": 3}
    made = WORKLOADS["independent"](**parameters, longest_tokens=20_000).generate(random.Random(1))
    assert {(each.prompt_tokens, each.output_tokens) for each in made} == {(4000, 3)}
    made = WORKLOADS["independent"](**parameters).generate(random.Random(1))
    assert {(each.prompt_tokens, each.output_tokens) for each in made} == {(1024, 3)}


def said(*texts: str) -> list[dict[str, str]]:
    return [{"from": ("human", "gpt")[at % 2], "value": text} for at, text in enumerate(texts)]


LONG = "words and words " * 4
SHAREGPT = [
    {"id": "a", "conversations": said(LONG, LONG, "and then?", LONG, "unanswered")},
    {"id": "b", "conversations": said("hi", LONG)},
    {"id": "c", "conversations": [{"from": "gpt", "value": LONG}, *said(LONG, LONG)]},
    {"id": "d", "conversations": said(LONG * 100, LONG)},
    {"id": "e", "conversations": []},
]


@pytest.mark.parametrize("is_lines", [False, True])
def test_a_dataset_has_its_conversations(is_lines: bool) -> None:
    """Those of usable length that a person begins, up to the turns wanted, as often as needed."""
    text = "\n".join(map(json.dumps, SHAREGPT)) if is_lines else json.dumps(SHAREGPT)
    found = conversations_of(text.encode(), 3, 5, None, random.Random(1))
    assert found.texts == [LONG, "and then?", LONG]
    assert [each.prompt_tokens for each in found.requests] == [16, 16 + 16 + 3, 16]
    assert [each.output_tokens for each in found.requests] == [16, 16, 16]
    assert [len(each) for each in conversations(found.requests, found.texts)] == [2, 1]
    single = conversations_of(text.encode(), 2, 1, 7, random.Random(1))
    assert [each.think_s for each in single.requests] == [None, None]
    assert [each.output_tokens for each in single.requests] == [7, 7]


def test_messages_are_conversations_too() -> None:
    """As many datasets write them."""
    messages = [{"role": "user", "content": LONG}, {"role": "assistant", "content": LONG}]
    found = conversations_of(json.dumps([{"messages": messages}]).encode(), 1, 1, None, random.Random(1))
    assert found.texts == [LONG]


@given(st.one_of(st.binary(max_size=100), st.sampled_from([b"[]", b"[1]", b"{}", b"[" * 10_000])))
def test_no_other_file_is_a_dataset(data: bytes) -> None:
    """And is refused as one."""
    with pytest.raises(DatasetError):
        conversations_of(data, 1, 1, None, random.Random(1))


def test_texts_of_a_dataset_begin_with_the_salt() -> None:
    """Since a cache may have them from an earlier run; without a salt, they stay as they are."""
    turn = Turn(0, blocks((), 8), "hello")
    salted = Prompts("s").text(turn, None)
    assert salted.endswith(" hello")
    assert len(salted.split()) == 5
    assert Prompts("").text(turn, None) == "hello"
    assert Prompts("s").text(turn, turn) == "hello"


def test_bodies_are_what_the_api_wants() -> None:
    """Roles take turns in a chat; a completion has one text; adapters are models."""
    request = TimedRequest(at_s=0.0, prompt_tokens=2, output_tokens=9, adapter="lora-1")
    form = Form(model="tiny", more={"temperature": 0})
    chat = json.loads(form.body(["a", "b", "c"], request))
    assert [each["role"] for each in chat["messages"]] == ["user", "assistant", "user"]
    assert chat["model"] == "lora-1"
    assert (chat["max_tokens"], chat["min_tokens"], chat["ignore_eos"]) == (9, 9, True)
    assert chat["stream_options"] == {"include_usage": True}
    assert chat["temperature"] == 0
    plain = Form(model="tiny", api="completions", is_streamed=False, is_exact=False)
    request = TimedRequest(at_s=0.0, prompt_tokens=2, output_tokens=9)
    assert json.loads(plain.body(["a"], request)) == {"model": "tiny", "prompt": "a", "max_tokens": 9}
