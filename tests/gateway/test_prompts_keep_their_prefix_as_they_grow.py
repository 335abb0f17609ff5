"""A continued conversation starts with the same prompt bytes; other prompts do not."""

import json

import pytest

from headgate.fleet.prefix import hashing
from headgate.requests.bodies import prompt
from headgate.requests.bodies.fields import inspect
from headgate.requests.bodies.members import Fields

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
LONG = "It was the best of times, it was the worst of times, it was the age of wisdom. " * 30


def read(body, path=CHAT):
    fields = inspect(json.dumps({"model": "m"} | body).encode())
    assert isinstance(fields, Fields)
    return prompt.read(fields, path)


def said(role, text):
    return {"role": role, "content": text}


TURNS = [said("system", LONG), said("user", "Who wrote this?"), said("assistant", LONG), said("user", "And?")]


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [
        ({"messages": TURNS[:2]}, {"messages": TURNS}),
        ({"messages": TURNS[:2], "temperature": 0}, {"stream": True, "messages": TURNS, "max_tokens": 5}),
        ({"tools": [{"a": 1}], "messages": TURNS[:2]}, {"messages": TURNS, "tools": [{"a": 1}]}),
        ({"prompt": LONG}, {"prompt": LONG + "It was"}),
        ({"prompt": [1, 2, 3]}, {"prompt": [1, 2, 3, 4]}),
        ({"prompt": [LONG, "x"]}, {"prompt": [LONG + "It", "y"]}),
        ({"instructions": "i", "input": LONG}, {"instructions": "i", "input": LONG + "more"}),
        ({"input": TURNS[:2]}, {"input": TURNS, "tools": None}),
        ({"system": LONG, "messages": TURNS[1:2]}, {"messages": TURNS[1:], "system": LONG}),
    ],
)
def test_what_goes_on_begins_with_what_was_there(shorter, longer):
    """Whatever the API, wherever the prompt stands in the body, and whatever else the request sets."""
    before, after = read(shorter).text, read(longer).text
    assert before
    assert after.startswith(before)
    known, grown = hashing.hashes(before, 1), hashing.hashes(after, 1)
    assert grown[: len(known)] == known


@pytest.mark.parametrize(
    "other",
    [
        {"messages": [said("system", "Be brief."), *TURNS]},
        {"messages": TURNS, "tools": [{"type": "function"}]},
        {"messages": TURNS, "system": "Be brief."},
        {"input": TURNS[1:]},
    ],
)
def test_what_comes_before_makes_another_prompt(other):
    """Tools and what the system says stand in front of the conversation."""
    known = hashing.hashes(read({"messages": TURNS}).text, 1)
    assert hashing.hashes(read(other).text, 1)[0] != known[0]


def test_models_adapters_and_salts_share_nothing():
    """The first block is chained to what the cache is divided by."""
    text = read({"messages": TURNS}).text
    seeds = [
        hashing.seed("m"),
        hashing.seed("n"),
        hashing.seed("m", b'"tenant"'),
        hashing.seed("m", b'"other"'),
    ]
    assert len({tuple(hashing.hashes(text, seed)) for seed in seeds}) == 4


def test_marks_of_anthropics_cache_do_not_matter():
    """They wander on to the last message with each turn."""

    def marked(text):
        content = {"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": "5m"}}
        return {"role": "user", "content": [content]}

    def plain(text):
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    before = read({"messages": [plain(LONG), marked("one")]}, MESSAGES).text
    after = read({"messages": [plain(LONG), plain("one"), marked("two")]}, MESSAGES).text
    assert after.startswith(before)
    assert b"ephemeral" not in after


def test_token_ids_are_counted():
    """They need no estimate; of a list of prompts, all are counted and the first is hashed."""
    assert read({"prompt": list(range(700))}).tokens == 700
    several = read({"prompt": [[1, 2, 3], [4, 5]]})
    assert (several.tokens, several.text) == (5, b"[1, 2, 3")


@pytest.mark.parametrize(
    "body", [{}, {"messages": None}, {"prompt": 5}, {"messages": []}, {"prompt": [None]}]
)
def test_a_request_without_a_prompt_has_no_prefix(body):
    """The engine will refuse it, in its own words."""
    assert hashing.hashes(read(body).text, 1) == []


def test_a_long_prompt_has_few_blocks_at_places_that_stay():
    """Blocks grow along a prompt, and each ends where it does in any prompt."""
    text = bytes(range(256)) * 2048
    blocks = hashing.hashes(text, 1)
    assert len(blocks) < 140
    for cut in (1024, 2047, 2048, 2049, 100_000):
        kept = hashing.hashes(text[:cut], 1)
        assert kept == blocks[: len(kept)]
        held = hashing.BLOCK_ENDS[len(kept) - 1] * hashing.BLOCK_BYTES if kept else 0
        assert held <= cut < held + held // hashing.GROWTH + hashing.BLOCK_BYTES
    changed = text[:5000] + b"x" + text[5001:]
    assert [a == b for a, b in zip(hashing.hashes(changed, 1), blocks, strict=True)].index(False) == 4


def test_short_prompts_have_no_blocks():
    """What is prefilled in milliseconds is not looked up; as a prompt grows, its first blocks are there."""
    text = bytes(range(256)) * 8
    assert hashing.hashes(text[: hashing.BLOCK_BYTES - 1], 1) == []
    assert hashing.hashes(text[: hashing.BLOCK_BYTES], 1) == hashing.hashes(text, 1)[:1]
