"""What follows `--` becomes the config of the worker, with the right types, or an error that says why not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.model import flags


@pytest.mark.parametrize(
    ("words", "config"),
    [
        ("", {}),
        ("--max-model-len 8192", {"max-model-len": 8192}),
        ("--max-model-len=8192 --seed -1", {"max-model-len": 8192, "seed": -1}),
        ("--max_model_len 1000000000000000000000", {"max-model-len": "1000000000000000000000"}),
        ("--seed 9223372036854775807", {"seed": 2**63 - 1}),
        ("--seed 9223372036854775808", {"seed": "9223372036854775808"}),
        ('--hf-overrides {"a":100000000000000000000}', {"hf-overrides": '{"a":100000000000000000000}'}),
        ("--gpu-memory-utilization 0.9", {"gpu-memory-utilization": 0.9}),
        ("--enable-lora --dtype bfloat16", {"enable-lora": True, "dtype": "bfloat16"}),
        ("--no-enable-prefix-caching", {"enable-prefix-caching": False}),
        ("--max-model-len 8k --revision 007", {"max-model-len": "8k", "revision": "007"}),
        ("--trust-remote-code true", {"trust-remote-code": "true"}),
        ('--kv-transfer-config {"a":[1,null]}', {"kv-transfer-config": {"a": [1, None]}}),
        ("--served-model-name a b", {"served-model-name": ["a", "b"]}),
        ("--chat-template a=b", {"chat-template": "a=b"}),
    ],
)
def test_values_have_types(words: str, config: dict[str, Any]) -> None:
    """Numbers, booleans, JSON; everything else is text, also integers that API servers would round."""
    assert flags.config_of(words.split(), has_negations=True) == config


def test_an_engine_without_negations_keeps_the_name_of_its_flag() -> None:
    """A false value would be left out for it."""
    assert flags.config_of(["--no-x"]) == {"no-x": True}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("8192", "'8192': not a flag; flags of the engine begin with --"),
        ("--max-model-len", "--max-model-len: needs a value, as in --max-model-len VALUE"),
        ("--dtype --enable-lora", "--dtype: needs a value, as in --dtype VALUE"),
        ("--dtype=", "--dtype: the value is empty; leave out the flag for the engine's default"),
        ("--dtype half float", "--dtype: has 2 values, ['half', 'float']"),
        ("--dtype half --dtype float", "--dtype: given twice"),
        ("-tp 2", "-tp: short flags have no name in a config; write --tensor-parallel-size"),
        ("-z", "-z: short flags have no name in a config; write its long form"),
        ("--model x", "--model: set by Headgate: the argument of `headgate serve` is the model"),
        ("--lora-modules a=b", "--lora-modules: set by Headgate: name adapters with --adapter NAME=URI"),
        ("--kv-transfer-config {a}", "--kv-transfer-config: '{a}' is not JSON"),
    ],
)
def test_mistakes_are_named_with_a_fix(words: str, error: str) -> None:
    """Each flag in a line of its own."""
    with pytest.raises(flags.FlagError) as caught:
        flags.config_of([*words.split(), "-q"])
    assert str(caught.value).splitlines()[0].startswith(error)
    assert "-q: short flags have no name in a config; write --quantization" in str(caught.value)


WORDS = ["--a", "--b=1", "--no-c", "-1", "1e999", "--d=1e999", "[1e999]", "--e=[1e999]", "[NaN]", "{", "[1]"]


@given(st.lists(st.text(max_size=12) | st.sampled_from(WORDS)))
def test_any_words_become_a_config_or_an_error(words: list[str]) -> None:
    """A config is JSON, whatever was typed."""
    try:
        config = flags.config_of(words)
    except flags.FlagError as error:
        assert str(error)
    else:
        assert json.loads(json.dumps(config, allow_nan=False)) == config
