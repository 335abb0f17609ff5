"""Streams as engines write them, however the network divides them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.loadtest import HttpError
from headgate.loadtest.streams import MAX_EVENT_BYTES, Answer


def data(document: object) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def delta(**fields: object) -> dict[str, object]:
    return {"id": "c", "choices": [{"index": 0, "delta": fields, "finish_reason": None, "logprobs": None}]}


USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
END = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "length", "stop_reason": None}]}
CHAT = b"".join(
    [
        data(delta(role="assistant", content="")),
        *(data(delta(content=word)) for word in ("one", " two", " thrée")),
        data(END),
        data({"id": "c", "choices": [], "usage": USAGE}),
        b"data: [DONE]\n\n",
    ]
)
VARIANTS = {
    "vllm": CHAT,
    "crlf": CHAT.replace(b"\n", b"\r\n"),
    "no space": CHAT.replace(b"data: ", b"data:"),
    "comments and names": b": ping\n\n" + CHAT.replace(b"data: {", b"event: message\nid: 1\ndata: {"),
    "usage in each": CHAT.replace(b'"id": "c", ', b'"id": "c", "usage": %s, ' % json.dumps(USAGE).encode()),
    "usage null": CHAT.replace(b'"id": "c", "choices": [{', b'"id": "c", "usage": null, "choices": [{'),
    "no end": CHAT.replace(b"data: [DONE]\n\n", b""),
    "choices null": CHAT.replace(b'"choices": []', b'"choices": null'),
}


def read(stream: bytes, sizes: list[int]) -> Answer:
    """In pieces of these sizes, one second after the other."""
    answer, at, now_s = Answer(keeps_text=True), 0, 1.0
    for size in [*sizes, len(stream)]:
        answer.take(stream[at : at + size], now_s)
        at, now_s = at + size, now_s + 1.0
    return answer


@pytest.mark.parametrize("name", VARIANTS)
@given(sizes=st.lists(st.integers(1, 60), max_size=60))
def test_any_pieces_have_the_same_tokens(name: str, sizes: list[int]) -> None:
    """The role and the end are no tokens."""
    answer = read(VARIANTS[name], sizes)
    assert answer.events == 3
    assert answer.text == "one two thrée"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (7, 3)
    assert answer.finish_reason == "length"
    assert answer.is_done == (name != "no end")
    assert len(answer.gaps_s) == 2
    assert sum(answer.gaps_s) == pytest.approx(answer.last_s - answer.first_s)


@pytest.mark.parametrize(
    "fields",
    [{"content": "x"}, {"reasoning_content": "x"}, {"reasoning": "x"}, {"tool_calls": [{"index": 0}]}],
)
def test_whatever_a_model_says_is_a_token(fields: dict[str, object]) -> None:
    """Also a thought, or the call of a tool."""
    assert read(data(delta(**fields)), []).events == 1


def test_completions_have_texts() -> None:
    """In place of deltas."""
    stream = data({"choices": [{"text": "a", "finish_reason": None}]}) + data({"choices": [{"text": ""}]})
    answer = read(stream, [])
    assert (answer.events, answer.text) == (1, "a")


def test_documents_are_read() -> None:
    """Responses that are not streamed."""
    answer = Answer(keeps_text=True)
    message = {"role": "assistant", "content": "hi", "refusal": None}
    answer.take_document(json.dumps({"choices": [{"message": message}], "usage": USAGE}).encode(), 1.0)
    assert answer.is_done
    assert answer.text == "hi"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        (data({"error": {"message": "out of memory", "code": 500}}), "stream-error"),
        (b"data: [1]\n", "protocol"),
        (b"data: {\xff}\n", "protocol"),
        (b"data: " + b"[" * 100_000 + b"\n", "protocol"),
        (b'data: {"choices": [{"text": 1}]}\n', "protocol"),
        (b'data: {"usage": {"prompt_tokens": -1}}\n', "protocol"),
        (b"data:" + b"x" * (MAX_EVENT_BYTES + 1), "too-long"),
    ],
)
def test_other_events_are_errors_of_a_kind(stream: bytes, kind: str) -> None:
    """With a short message."""
    with pytest.raises(HttpError) as raised:
        Answer().take(stream, 1.0)
    assert raised.value.kind == kind
    assert len(str(raised.value)) < 400


@given(st.binary(max_size=300))
def test_nonsense_is_refused_or_ignored(stream: bytes) -> None:
    """Never anything else."""
    try:
        Answer().take(b"data: " + stream + b"\n", 1.0)
    except HttpError as error:
        assert error.kind in ("protocol", "stream-error")
