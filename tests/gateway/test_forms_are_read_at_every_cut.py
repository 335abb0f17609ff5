"""A form is the same wherever its bytes are cut on their way, and one that is cut off is refused."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from headgate.requests.bodies import forms
from headgate.requests.refusal import Refusal

BOUNDARY = b"------------------------d74496d66958873e"
KIND = b"multipart/form-data; boundary=" + BOUNDARY
AUDIO = bytes(range(256)) + b"\r\n--" + BOUNDARY[:-1] + b"\r\n"


def form(*parts: tuple[bytes, bytes, bool]) -> bytes:
    """Parts as their names, values, and whether they are files."""
    made = b""
    for name, value, is_file in parts:
        file = b'; filename="a.wav"' if is_file else b""
        made += b'--%b\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n' % (
            BOUNDARY,
            name,
            file,
            value,
        )
    return made + b"--%b--\r\n" % BOUNDARY


WHOLE = form((b"file", AUDIO, True), (b"stream", b"true", False), (b"model", b"m", False))


def test_one_that_ends_early_is_refused():
    """Wherever it ends before its last boundary: no part of it is taken for the whole."""
    last = len(WHOLE) - len(b"\r\n")
    for end in range(last):
        assert isinstance(forms.read([(b"content-type", KIND)], WHOLE[:end]), Refusal), end
    for end in (last, last + 1, last + 2):
        found = forms.read([(b"content-type", KIND)], WHOLE[:end])
        assert isinstance(found, forms.Form)
        assert (found.model, found.stream) == ("m", True)


async def test_every_split_of_its_bytes(gateway, endpoint):
    """Two reads or one: the endpoint gets the same bytes, for the same model."""
    endpoint.behave = lambda call: call.answer(b"{}")
    head = (
        b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: g\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
        % (KIND, len(WHOLE))
    )
    client = await gateway.connect()
    for place in range(0, len(WHOLE) + 1, 3):
        client.send(head + WHOLE[:place])
        await asyncio.sleep(0.0005)
        client.send(WHOLE[place:])
        assert (await client.response()).status == 200
        assert endpoint.calls.pop().body == WHOLE


NAMES = st.sampled_from((b"model", b"prompt", b"language", b"x"))
VALUES = st.binary(max_size=60).filter(lambda value: b"\r\n--" + BOUNDARY not in b"\r\n" + value + b"\r\n")


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6, unique_by=lambda part: part[0]), VALUES)
def test_values_are_what_was_written(texts, file):
    """Any bytes but the boundary, of texts and of files."""
    body = form(*((name, value, False) for name, value in texts), (b"file", file, True))
    wanted = frozenset((b"model", b"prompt", b"language"))
    found = forms.values([(b"content-type", KIND)], body, wanted, frozenset({b"file"}))
    assert found == {name: value for name, value in texts if name in wanted} | {b"file": file}


def test_a_text_where_a_file_is_due_is_refused():
    """And the reverse."""
    for is_file in (False, True):
        body = form((b"file", b"x", is_file), (b"model", b"m", is_file))
        found = forms.values([(b"content-type", KIND)], body, frozenset({b"model"}), frozenset({b"file"}))
        assert isinstance(found, Refusal)
        assert "is a file" in found.message or "is not a file" in found.message
