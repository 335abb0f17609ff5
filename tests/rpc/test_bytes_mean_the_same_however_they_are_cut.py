"""Any split of the bytes that a client sends gives the same events and replies."""

import math

from h2_sides import HEADERS, Side, cut, frame, framed, greeted, h2_client
from hypothesis import given
from hypothesis import strategies as st

from headgate.http2.errors import Http2Error

sizes = st.sampled_from([0, 1, 4, 5, 300, 16_379, 20_000])
steps = st.lists(
    st.tuples(st.sampled_from(["open", "send", "end", "reset", "ping", "settings", "trailers"]), sizes),
    max_size=14,
)


def transcript(script, data) -> bytes:
    """What an h2 client writes for a script, with messages cut into DATA frames of any size."""
    client = h2_client()
    client.receive_data(Side().http2.take())
    open_streams: list[int] = []
    for step, size in script:
        if step == "open":
            number = client.get_next_available_stream_id()
            long = [("x-long", "y" * size)] if size < 5000 else []
            client.send_headers(number, HEADERS + long)
            open_streams.append(number)
        elif step == "ping":
            client.ping(b"12345678")
        elif step == "settings":
            client.update_settings({4: 65_535 + size})
        elif open_streams:
            number = open_streams[size % len(open_streams)]
            if step == "send":
                written = framed(b"m" * size)
                at = 0
                while at < len(written):
                    left = min(16_384, len(written) - at, client.local_flow_control_window(number))
                    if left <= 0:
                        break
                    length = data.draw(st.integers(1, left))
                    padding = data.draw(st.sampled_from([None, None, 0, 9])) if length < 16_000 else None
                    if left < length + (padding or -1) + 1:
                        padding = None
                    client.send_data(number, written[at : at + length], pad_length=padding)
                    at += length
            else:
                open_streams.remove(number)
                if step == "end":
                    client.end_stream(number)
                elif step == "reset":
                    client.reset_stream(number, 8)
                else:
                    client.send_headers(number, [("x-trailer", "1")], end_stream=True)
    return client.data_to_send()


def taken(pieces) -> tuple[list[object], bytes, int]:
    """What a server hears of these pieces, what it sends, and what it holds."""
    server = Side()
    for piece in pieces:
        server.feed(piece)
    return server.heard, server.http2.take(), server.held.used_bytes


@given(steps, st.data())
def test_events_do_not_depend_on_the_cuts(script, data):
    """Those of whole frames, of halves, and of single bytes."""
    whole = transcript(script, data)
    places = data.draw(st.sets(st.integers(1, len(whole)), max_size=20))
    expected = taken([whole])
    assert taken(cut(whole, places)) == expected
    if len(whole) < 2000:
        assert taken([whole[n : n + 1] for n in range(len(whole))]) == expected


def test_a_turn_that_ends_leaves_the_rest():
    """One frame is processed in each, in order."""
    server, client = greeted()
    client.send_headers(1, HEADERS)
    for n in range(5):
        client.send_data(1, framed(b"%d" % n))
    rest, turns = client.data_to_send(), 0
    while rest:
        rest = server.receiver.receive(rest, server, 0.0, -math.inf)
        turns += 1
    assert turns == 6
    assert server.calls[1].heard == [("message", b"%d" % n) for n in range(5)]


frames = st.builds(
    lambda kind, flags, stream, payload: frame(kind, payload, flags=flags, stream=stream),
    st.integers(0, 11),
    st.sampled_from([0, 1, 4, 5, 8, 9, 0x20, 0x2D, 0xFF]),
    st.sampled_from([0, 1, 2, 3, 5, 1 << 31]),
    st.binary(max_size=24)
    | st.sampled_from([b"\x83\x86", b"\0" * 8, b"\0\0\0\0\0", b"\0\0\0\1", b"\x02ab" + b"\0" * 9]),
)


@given(st.lists(frames, max_size=10), st.booleans())
def test_frames_of_any_kind_end_no_more_than_the_connection(sent, is_client):
    """With an error that says why, on both sides; and what was held is held no longer."""
    side = Side(is_client=is_client)
    greeting = h2_client().data_to_send()
    side.feed(greeting[24:] if is_client else greeting)
    if is_client:
        for _ in range(3):
            side.opened(side.http2.begin(), ())
    try:
        for each in sent:
            side.feed(each)
    except Http2Error as error:
        assert str(error)
    for stream in [*side.http2.streams.values()]:
        side.http2.fail(stream, 8, "over")
    assert side.held.used_bytes == 0
    assert not side.http2.incomplete
    assert not side.http2.sender.blocked


@given(st.data())
def test_broken_bytes_end_no_more_than_the_connection(data):
    """A transcript of which some bytes are others."""
    whole = bytearray(transcript([("open", 5), ("send", 300), ("open", 1), ("send", 5), ("end", 0)], data))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    try:
        taken([bytes(whole)])
    except Http2Error as error:
        assert str(error)
