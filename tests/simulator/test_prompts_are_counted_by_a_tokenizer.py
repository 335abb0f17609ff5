import importlib.util
import json

import pytest
import tokenizers
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli.simulate import simulate
from headgate.simulator.model import PROFILES
from headgate.simulator.server import ServerSettings
from headgate.simulator.server.tokenizing import FromFile

WORDS = ["[none]", "how", "deep", "is", "the", "canal"]


def by_words():
    """A tokenizer that knows a few words, parted by blanks."""
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[none]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return made


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tokenizer.json"
    by_words().save(str(path))
    return str(path)


async def post(server, path, **body):
    answer = await server.client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_ids_and_usage_are_those_of_the_tokenizer(serve, file):
    """Both ways, and the same in /tokenize and in the usage of an answer."""
    prompt = "how deep is the lock"
    async with serve(tokenizer=file) as server:
        told = await post(server, "/tokenize", prompt=prompt, return_token_strs=True)
        text = await post(server, "/detokenize", tokens=[1, 2, 999])
        answer = await post(server, "/v1/completions", model="tiny", prompt=prompt, max_tokens=3)
    assert told["tokens"] == [1, 2, 3, 4, 0]
    assert told["token_strs"] == [*prompt.split()[:4], "[none]"]
    assert text["prompt"] == "how deep"
    assert answer["usage"]["prompt_tokens"] == 5
    assert answer["usage"]["completion_tokens"] == 3


async def test_an_echo_has_the_tokens_of_what_was_said(serve, file):
    """Each of them is an event of its own, and one more ends the answer."""
    messages = [{"role": "user", "content": "how deep is the canal"}]
    async with serve(tokenizer=file, mode="echo") as server:
        answer = await post(server, "/v1/chat/completions", model="tiny", messages=messages)
    assert answer["choices"][0]["message"]["content"] == "how deep is the canal"
    assert answer["usage"] == answer["usage"] | {"prompt_tokens": 5, "completion_tokens": 6}


async def test_cached_blocks_are_those_of_the_tokenizer(serve, fast, file):
    """Prompts share the blocks of their ids: thirteen have three full blocks of four."""
    prompt = " ".join(["is"] * 13)
    async with serve(tokenizer=file, engine=fast(block_size=4)) as server:
        for _ in range(2):
            answer = await post(server, "/v1/completions", model="tiny", prompt=prompt, max_tokens=8)
    assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] == 12


async def test_servers_of_one_process_keep_their_tokenizers_apart(serve, file):
    """The one without a file still takes four bytes for a token."""
    async with serve(tokenizer=file) as one, serve() as other:
        counts = [
            (await post(server, "/tokenize", prompt="how deep is the canal"))["count"]
            for server in (one, other)
        ]
    assert counts == [5, 6]


def test_the_extra_is_named_where_the_package_is_missing(monkeypatch, file):
    """Before anything is read."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"tokenizer: .*install headgate\[tokenizers\]"):
        ServerSettings(engine=PROFILES["fast"].config, tokenizer=file)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    """The error names it."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "llama"}))
    result = CliRunner().invoke(simulate, ["engine", "--port", "0", "--tokenizer", str(path)])
    assert result.exit_code == 1
    assert f"{path} cannot be read as a tokenizer.json" in result.output


@given(st.text())
def test_pieces_are_the_text(text):
    """Whatever the tokenizer leaves out of its tokens, and characters that it does not take."""
    tokenizer = FromFile(by_words())
    pieces = tokenizer.pieces(text)
    assert "".join(pieces) == text
    assert all(pieces)
    assert bool(tokenizer.tokenize(text)) == bool(text)
