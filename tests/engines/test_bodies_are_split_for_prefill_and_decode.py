"""What the two endpoints of a pair are sent for one request, connector by connector."""

import copy
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.engines import transfer
from headgate.engines.transfer.connectors import read_response

CHAT = "/v1/chat/completions"
ANY = random.Random(1)
VLLM = ("http", "lmcache", "nixl", "mooncake")
HANDED = (
    b'{"do_remote_prefill":true,"remote_block_ids":[1,2],"remote_engine_id":"e","x":12345678901234567890}'
)


def chat(**members):
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **members}


def split(name, body, path=CHAT, handed_over=None, rng=ANY):
    """The prefill and the decode body as objects."""
    connector = transfer.connector(name)
    read = transfer.read(path, body if isinstance(body, bytes) else json.dumps(body).encode())
    meeting = connector.meeting(read, "10.0.0.7", 8998, rng)
    given = read_response(b'{"kv_transfer_params":%b}' % handed_over).handed_over if handed_over else None
    prefill, decode = connector.prefill(read, meeting), connector.decode(read, meeting, given)
    return json.loads(prefill), json.loads(decode)


def why_not(name, body, path=CHAT):
    return transfer.connector(name).why_not(transfer.read(path, json.dumps(body).encode()))


def test_s15_the_prefill_body_of_nixl():
    """No stream and no stream options, one token, and the blocks are to be kept for another."""
    body = chat(stream=True, stream_options={"include_usage": True}, max_tokens=200)
    prefill, _ = split("nixl", body)
    assert "stream" not in prefill
    assert "stream_options" not in prefill
    assert prefill["max_tokens"] == 1
    assert prefill["kv_transfer_params"]["do_remote_decode"] is True
    assert prefill["kv_transfer_params"]["do_remote_prefill"] is False
    assert prefill["messages"] == body["messages"]


@pytest.mark.parametrize("name", ["nixl", "mooncake"])
def test_s16_the_decode_body_of_nixl(name):
    """The client's own limits and stream, and the object that the prefill's answer had, byte for byte."""
    body = chat(stream=True, stream_options={"include_usage": True}, max_tokens=200, n=1)
    _, decode = split(name, body, handed_over=HANDED)
    assert decode == {**body, "kv_transfer_params": json.loads(HANDED)}
    read = transfer.read(CHAT, json.dumps(body).encode())
    given = read_response(b'{"kv_transfer_params": %b}' % HANDED).handed_over
    connector = transfer.connector(name)
    raw = connector.decode(read, connector.meeting(read, "h", 1, ANY), given)
    assert raw.endswith(b'"kv_transfer_params":' + HANDED + b"}")


@pytest.mark.parametrize("name", [*VLLM, "sglang"])
def test_s17_every_name_of_the_limit_is_one(name):
    """max_completion_tokens counts where it is given; max_tokens is always set; null is not given."""
    prefill, decode = split(name, chat(max_completion_tokens=200))
    assert (prefill["max_tokens"], prefill["max_completion_tokens"]) == (1, 1)
    assert decode["max_completion_tokens"] == 200
    assert "max_tokens" not in decode
    prefill, _ = split(name, chat(max_completion_tokens=None))
    assert (prefill["max_tokens"], prefill["max_completion_tokens"]) == (1, None)


def test_s19_both_servers_of_sglang_meet_in_one_room():
    """Room, host and port are in both requests, as in SGLang's own router; each attempt has a new room."""
    rng = random.Random(7)
    prefill, decode = split("sglang", chat(stream=True, max_tokens=9), rng=rng)
    told = {name: decode[name] for name in ("bootstrap_host", "bootstrap_port", "bootstrap_room")}
    assert told == {
        "bootstrap_host": "10.0.0.7",
        "bootstrap_port": 8998,
        "bootstrap_room": prefill["bootstrap_room"],
    }
    assert told.items() <= prefill.items()
    assert 0 <= told["bootstrap_room"] < 2**63
    assert (decode["stream"], decode["max_tokens"]) == (True, 9)
    assert "stream" not in prefill
    again, _ = split("sglang", chat(), rng=rng)
    assert again["bootstrap_room"] != told["bootstrap_room"]


@pytest.mark.parametrize("name", [*VLLM, "sglang"])
def test_s20_the_clients_request_stays(name):
    """Neither the bytes nor the members of the body are changed by making others of it."""
    raw = json.dumps(chat(stream=True, max_tokens=5, n=1)).encode()
    read = transfer.read(CHAT, raw)
    before = copy.copy(read.fields)
    connector = transfer.connector(name)
    meeting = connector.meeting(read, "h", 1, ANY)
    connector.prefill(read, meeting)
    connector.decode(read, meeting, read_response(b'{"kv_transfer_params":{}}').handed_over)
    assert (read.raw, read.fields) == (raw, before)


@pytest.mark.parametrize("name", VLLM)
def test_what_is_said_of_the_answer_is_not_asked_of_the_prefill(name):
    """Each of these would be refused beside one token, or costs time for an answer that is thrown away."""
    body = chat(
        min_tokens=5,
        n=4,
        best_of=6,
        logprobs=True,
        top_logprobs=3,
        stop=["x"],
        response_format={"type": "json_object"},
        guided_json={},
        structured_outputs={},
        temperature=0.5,
        tools=[{"type": "function"}],
        seed=1,
        mine={"a": 1},
    )
    prefill, decode = split(name, body)
    assert prefill.pop("kv_transfer_params", None) is None or name in ("nixl", "mooncake")
    kept = ("temperature", "tools", "seed", "mine")
    assert prefill == chat(n=1, max_tokens=1, **{name: body[name] for name in kept})
    assert decode == body


def test_sglang_samples_its_first_token_where_it_prefills():
    """What decides how a token is sampled is in both requests; of min_tokens, one is left."""
    asked = {"n": 2, "logprobs": True, "response_format": {"type": "json_object"}, "min_tokens": 8}
    prefill, decode = split("sglang", chat(max_tokens=50, **asked))
    assert prefill.items() >= {**asked, "min_tokens": 1, "max_tokens": 1}.items()
    assert decode.items() >= {**asked, "max_tokens": 50}.items()


@pytest.mark.parametrize(
    ("members", "rooms"),
    [
        ({"prompt": "a"}, 1),
        ({"prompt": ["a", "b", "c"]}, 3),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": [[1, 2], [3]]}, 2),
        ({"prompt": []}, 1),
        ({"prompt": "a", "n": 3}, 3),
        ({"prompt": ["a", "b"], "n": 2}, 4),
    ],
)
def test_each_sequence_has_a_room_of_its_own(members, rooms):
    """A batch of prompts, and several answers to each, are as many transfers; lists tell them apart."""
    prefill, decode = split("sglang", {"model": "m", **members}, "/v1/completions")
    assert prefill["bootstrap_room"] == decode["bootstrap_room"]
    if rooms == 1:
        assert isinstance(decode["bootstrap_room"], int)
    else:
        assert len(set(decode["bootstrap_room"])) == rooms
        assert decode["bootstrap_host"] == ["10.0.0.7"] * rooms
        assert decode["bootstrap_port"] == [8998] * rooms


def test_the_native_api_of_sglang():
    """Its limits are nested and stay: only the meeting is added."""
    body = {"model": "m", "text": ["a", "b"], "sampling_params": {"max_new_tokens": 9}}
    prefill, decode = split("sglang", body, "/generate")
    assert prefill == decode
    assert len(decode["bootstrap_room"]) == 2
    assert body.items() <= decode.items()
    assert why_not("nixl", body, "/generate") == "api"


def test_responses_have_a_limit_of_their_own():
    """One output token, and the answer is not kept; formats of the text are left out."""
    body = {"model": "m", "input": "hi", "max_output_tokens": 500, "text": {"format": {}}, "stream": True}
    prefill, decode = split("nixl", body, "/v1/responses", HANDED)
    prefill.pop("kv_transfer_params")
    assert prefill == {"model": "m", "input": "hi", "max_output_tokens": 1, "store": False}
    assert decode == {**body, "kv_transfer_params": json.loads(HANDED)}


def test_messages_of_anthropic():
    """`max_tokens` is theirs too; the system prompt and the tools are part of the prompt and stay."""
    body = {"model": "m", "max_tokens": 99, "system": "s", "messages": [], "stop_sequences": ["x"]}
    prefill, decode = split("http", {**body, "stream": True}, "/v1/messages")
    assert prefill == {"model": "m", "max_tokens": 1, "system": "s", "messages": []}
    assert decode == {**body, "stream": True}


@pytest.mark.parametrize(
    ("name", "members", "why"),
    [
        ("nixl", {}, ""),
        ("nixl", {"n": 2}, "n"),
        ("mooncake", {"n": 2}, "n"),
        ("nixl", {"best_of": 3}, "n"),
        ("nixl", {"use_beam_search": True}, "n"),
        ("http", {"n": 2}, ""),
        ("lmcache", {"n": 2}, ""),
        ("sglang", {"n": 2}, ""),
        ("nixl", {"prompt": ["a", "b"]}, "prompts"),
        ("http", {"prompt": ["a", "b"]}, ""),
        ("http", {"prompt_logprobs": 0}, "prompt_logprobs"),
        ("nixl", {"prompt_logprobs": None}, ""),
        ("http", {"echo": True, "logprobs": 1}, "prompt_logprobs"),
        ("http", {"echo": True}, ""),
        ("http", {"echo": False, "logprobs": 1}, ""),
        ("http", {"background": True}, "stateful"),
        ("nixl", {"previous_response_id": "r"}, "stateful"),
    ],
)
def test_what_cannot_be_split(name, members, why):
    """The request is then served whole by the endpoint that decodes, but for SGLang's, which cannot."""
    assert why_not(name, chat(**members)) == why


@pytest.mark.parametrize(
    ("path", "body"),
    [("/v1/embeddings", b'{"model":"m"}'), (CHAT, b"[]"), (CHAT, b"--x\r\n"), (CHAT, b'{"\xff":1}')],
)
def test_other_bodies_are_not_read(path, body):
    """Forms, embeddings and what is no object have no phases."""
    assert transfer.read(path, body) is None


@pytest.mark.parametrize("name", [*VLLM, "sglang"])
def test_clients_cannot_point_an_engine_at_memory(name):
    """Whatever a client says of transfers is dropped, however it spells the name of the member."""
    body = (
        b'{"model":"m","messages":[],"kv_transfer_params":{"remote_host":"evil"},'
        b'"bootstrap_ho\\u0073t":"evil","bootstrap_port":1,"bootstrap_room":2}'
    )
    for made in split(name, body):
        assert "evil" not in json.dumps(made)
    assert b"evil" not in transfer.read(CHAT, body).whole()


def test_a_body_that_is_served_whole_stays_as_it_is():
    """Bytes, white space included."""
    raw = b'{ "model" : "m", "messages":[] , "seed": 123456789012345678901234567890 }'
    assert transfer.read(CHAT, raw).whole() is raw


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=6), st.sampled_from([*VLLM, "sglang"]))
def test_members_that_nobody_knows_stay(members, name):
    """In both bodies: their values, their order, numbers of any size."""
    body = chat(**{f"x-{key}": value for key, value in members.items()})
    prefill, decode = split(name, body)
    for made in (prefill, decode):
        assert {key: made.get(key) for key in body} == body
        assert [key for key in made if key in body] == list(body)


@pytest.mark.parametrize(
    ("text", "cached"),
    [
        (b"{}", None),
        (b'{"usage":{"prompt_tokens":9}}', None),
        (b'{"usage":{"prompt_tokens":9,"prompt_tokens_details":null}}', None),
        (b'{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}', 4),
        (b'{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":4}}}', 4),
        (b'{"usage":{"input_tokens":9,"cache_read_input_tokens":3}}', 3),
    ],
)
def test_what_a_prefill_says_of_its_cache(text, cached):
    """In the names of each API; None where nothing is said."""
    read = read_response(text)
    assert (read.cached_tokens, read.handed_over) == (cached, None)
