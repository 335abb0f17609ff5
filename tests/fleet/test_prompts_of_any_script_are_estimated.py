"""Prompts of any script, escaped or not, are estimated within 30 % of what real tokenizers make of them.

`token_counts.json` has texts with their tokens by the vocabularies of Qwen, of DeepSeek, and of GPT-3, which
knows little but English.
"""

import json
from pathlib import Path

import pytest

from headgate.fleet import PromptSizes, scripts

TEXTS = json.loads((Path(__file__).parent / "token_counts.json").read_text())
OF_TODAY = ("qwen", "deepseek")
EAST_ASIAN = ("chinese", "traditional", "japanese", "korean", "mixed zh-en")
OTHERS = ("russian", "arabic", "thai", "hindi", "greek", "emoji", "emojis only")
WITHIN = 0.3


def in_json(text, *, is_escaped):
    """As clients write it: Python's with escapes, others without."""
    return json.dumps(text, ensure_ascii=is_escaped)[1:-1].encode()


def estimated(sizes, text):
    amounts = scripts.amounts(text, len(text))
    return len(text) / sizes.bytes_per_token("m") if amounts is None else sizes.tokens("m", amounts)


def learn(sizes, text, tokens, times=12):
    repeated = text * times
    sizes.learn("m", len(repeated), tokens * times, scripts.amounts(repeated, len(repeated)))


@pytest.mark.parametrize("is_escaped", [False, True])
@pytest.mark.parametrize("vocabulary", OF_TODAY)
@pytest.mark.parametrize("name", [*EAST_ASIAN, "russian", "arabic", "emoji", "json in json", "code"])
def test_before_anything_was_learned(name, vocabulary, is_escaped):
    """Of a model of today; an escape of six bytes counts as the character that it is."""
    text = in_json(TEXTS[name]["text"], is_escaped=is_escaped)
    assert estimated(PromptSizes(), text) == pytest.approx(TEXTS[name]["tokens"][vocabulary], rel=WITHIN)


@pytest.mark.parametrize("is_escaped", [False, True])
@pytest.mark.parametrize("vocabulary", [*OF_TODAY, "gpt-3"])
@pytest.mark.parametrize("name", [*EAST_ASIAN, *OTHERS])
def test_after_some_prompts_were_counted(name, vocabulary, is_escaped):
    """Other texts in the language, and in English, teach a model's vocabulary, however they are written."""
    sizes, english = PromptSizes(), TEXTS["english"]
    for _ in range(3):
        learn(sizes, in_json(english["before"], is_escaped=False), english["before_tokens"][vocabulary])
        before = in_json(TEXTS[name]["before"], is_escaped=not is_escaped)
        learn(sizes, before, TEXTS[name]["before_tokens"][vocabulary])
    for told, counts in (("text", "tokens"), ("before", "before_tokens")):
        text = in_json(TEXTS[name][told], is_escaped=is_escaped)
        assert estimated(sizes, text) == pytest.approx(TEXTS[name][counts][vocabulary], rel=WITHIN)


def test_scripts_do_not_teach_each_other():
    """What a model makes of Chinese says nothing of its English, nor of its Russian; nor of another model."""
    sizes = PromptSizes()
    chinese, english, russian = (
        in_json(TEXTS[each]["text"], is_escaped=False) for each in ("chinese", "english", "russian")
    )
    before = estimated(sizes, english), estimated(sizes, russian)
    for _ in range(5):
        learn(sizes, chinese, TEXTS["chinese"]["tokens"]["gpt-3"])
    assert (estimated(sizes, english), estimated(sizes, russian)) == before
    assert sizes.tokens("another", scripts.amounts(chinese, len(chinese))) < 0.5 * estimated(sizes, chinese)
    assert "m (han)" in sizes.statistics()


def test_a_long_text_is_known_by_some_pieces():
    """Its scripts are looked for in sixteen kilobytes, spread over all of it."""
    chinese = in_json(TEXTS["chinese"]["text"], is_escaped=False)
    text = b"x" * 300_000 + chinese * (300_000 // len(chinese))
    whole = 300_000 + scripts.amounts(chinese, 300_000)["han"]
    for given in (text, bytearray(text), memoryview(text)):
        assert sum(scripts.amounts(given, len(text)).values()) == pytest.approx(whole, rel=0.1)


@pytest.mark.parametrize("text", [b"", b"plain", b'{"a": "\\n\\t\\""}', b"x" * 100_000])
def test_plain_text_is_its_length(text):
    """Nothing more is looked at."""
    assert scripts.amounts(text, len(text)) is None


@pytest.mark.parametrize(
    "text", [b"\x80\x80", b"\xff", b"\\ud83d", b"\\u12", b"\\ude00\\ud83d", b"a\\u0000\xff"]
)
def test_what_is_no_text_breaks_nothing(text):
    """A client may write anything."""
    amounts = scripts.amounts(text, len(text))
    assert amounts is None or PromptSizes().tokens("m", amounts) >= 0
