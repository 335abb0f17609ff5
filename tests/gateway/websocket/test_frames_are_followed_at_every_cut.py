"""However the bytes of an endpoint are cut, the gateway knows where frames end, and what they count."""

import json

from hypothesis import given
from hypothesis import strategies as st

from headgate.gateway.websocket.frames import Frames, close_frame
from headgate.requests.sessions import SessionTail, model_of, with_model

PAYLOADS = st.one_of(st.binary(max_size=130), st.integers(120, 70_000).map(lambda size: b"x" * size))


def frame(payload: bytes, opcode: int = 1, *, mask: bool = False) -> bytes:
    bit = 0x80 if mask else 0
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, bit | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, bit | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, bit | 127)) + size.to_bytes(8, "big")
    return head + (b"mask" if mask else b"") + payload


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(
    st.lists(st.tuples(PAYLOADS, st.sampled_from((0, 1, 2, 9, 10)), st.booleans()), max_size=5),
    st.lists(st.integers(0, 1 << 20), max_size=6),
    st.data(),
)
def test_ends_of_frames(sent, places, data):
    """At the end of the last frame, and nowhere within one. Their messages are read without heads."""
    whole = b"".join(frame(payload, opcode, mask=mask) for payload, opcode, mask in sent)
    frames = Frames()
    told = b"".join([frames.feed(piece) for piece in cut(whole, places)])
    assert told == b"".join(payload for payload, opcode, _ in sent if opcode < 8)
    assert frames.is_between
    assert not frames.is_closing
    if whole:
        last = frame(*sent[-1][:2], mask=sent[-1][2])
        missing = data.draw(st.integers(1, len(last)))
        frames = Frames()
        for piece in cut(whole[:-missing], places):
            frames.feed(piece)
        assert frames.is_between == (missing == len(last))


def test_every_split_of_a_close():
    """It is noticed, whatever comes before it."""
    whole = frame(b"x" * 200) + close_frame(1000, "bye")
    for place in range(len(whole) + 1):
        frames = Frames()
        frames.feed(whole[:place])
        frames.feed(whole[place:])
        assert frames.is_between
        assert frames.is_closing


def test_every_split_of_a_count():
    """Each count is read once, whole or cut anywhere, and so are the pieces behind the last one."""
    piece = {"type": "response.output_text.delta", "delta": "a"}
    events = [
        {"type": "response.created", "response": {"usage": None}},
        piece,
        {"type": "response.done", "response": {"usage": {"input_tokens": 5, "output_tokens": 2}}},
        {"type": "text", "text": 'a "usage": {"input_tokens": 9} in a text'},
        {
            "type": "response.done",
            "response": {
                "usage": {"input_tokens": 7, "output_tokens": 3, "input_token_details": {"cached_tokens": 4}}
            },
        },
        {"type": "response.created", "response": {"usage": None}},
        piece,
        piece,
    ]
    for separators in ((",", ":"), (", ", ": ")):
        whole = b"".join(frame(json.dumps(event, separators=separators).encode()) for event in events)
        for place in range(len(whole) + 1):
            tail = SessionTail()
            tail.add(whole[:place])
            tail.add(whole[place:])
            assert (tail.usage(), tail.uncounted) == ((12, 5, 4), 2)
        tail = SessionTail()
        for byte in whole:
            tail.add(bytes((byte,)))
        assert (tail.usage(), tail.uncounted) == ((12, 5, 4), 2)


def test_a_count_without_an_end_is_bounded():
    """An endpoint cannot fill the memory, or have it searched again and again."""
    tail = SessionTail()
    for _ in range(1000):
        tail.add(b'"usage":{' + b"x" * 10_000)
    assert len(tail._cut) < 20_000
    assert tail.usage() is None
    for _ in range(100_000):
        tail.add(b"{")
    tail.add(b'"usage":{"input_tokens":1,"output_tokens":1}')
    assert tail.usage() == (1, 1, None)


@given(st.text(max_size=30).filter(str.strip), st.text(max_size=30).filter(str.strip))
def test_models_in_queries(model, other):
    """Any name can be named, and replaced by any other."""
    query = with_model("a=b&model=x&c", model)
    assert model_of(query) == model
    assert model_of(with_model(query, other)) == other
    assert query.startswith("a=b&model=")
    assert query.endswith("&c")
