"""Multipart forms, as used for audio, are routed by their part `model`; every other byte stays."""

import time

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.requests.bodies.form_parts import (
    MAX_PARAMETERS,
    MAX_PART_HEAD_BYTES,
    MAX_PART_HEADERS,
    MAX_PARTS,
)
from headgate.requests.bodies.forms import MAX_NAME_BYTES, Form, read
from headgate.requests.refusal import Refusal

BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
AUDIO = bytes(range(256)) * 40 + b"\r\n--" + BOUNDARY[:-1].encode() + b"\r\n\r\n\x00"
PATHS = ["/v1/audio/transcriptions", "/v1/audio/translations"]


def part(name, value, *, filename=None, more=""):
    file = f'; filename="{filename}"' if filename else ""
    disposition = f'Content-Disposition: form-data; name="{name}"{file}\r\n{more}\r\n'
    return disposition.encode() + value


def form(*parts, boundary=BOUNDARY):
    line = b"--" + boundary.encode()
    return b"".join(line + b"\r\n" + each + b"\r\n" for each in parts) + line + b"--\r\n"


FILE = part("file", AUDIO, filename='a;name=\\"model\\".wav', more="Content-Type: audio/wav\r\n")
MODEL = part("model", b"m")


def kind(boundary=BOUNDARY):
    return {"content-type": f"multipart/form-data; boundary={boundary}"}


def read_of(body, content_type=None):
    return read(
        [(b"content-type", content_type or f"multipart/form-data; boundary={BOUNDARY}".encode())], body
    )


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("served", [None, "openai/whisper-large-v3"])
async def test_a_form_reaches_the_pool_of_its_model(start_gateway, endpoint, path, served):
    """Only the value of the part changes, where the endpoint knows the model by another name."""
    gateway = await start_gateway(endpoint, model=served)
    endpoint.behave = lambda call: call.answer(b'{"text":"hello"}')
    body = form(part("language", b"en"), FILE, MODEL, part("prompt", b"\r\nmodel"))
    response = await gateway.ask(body, path, **kind())
    assert (response.status, response.body) == (200, b'{"text":"hello"}')
    (call,) = endpoint.calls
    renamed = part("model", (served or "m").encode())
    assert call.body == body.replace(MODEL, renamed)
    assert call.header("content-type") == kind()["content-type"]


async def test_a_stream_of_a_form_is_a_stream(start_gateway, endpoint):
    """Its events pass, and nothing is added to the form."""
    gateway = await start_gateway(endpoint)
    events = b'data: {"type":"transcript.text.delta","delta":"hi"}\n\n'

    def behave(call):
        call.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n" + events
        )
        call.close()

    endpoint.behave = behave
    body = form(FILE, MODEL, part("stream", b"true"))
    for path in (PATHS[0], "/v1/chat/completions"):
        assert (await gateway.ask(body, path, **kind())).body == events
    assert {call.body for call in endpoint.calls} == {body}


@pytest.mark.parametrize(
    ("content_type", "boundary"),
    [
        (b'Multipart/Form-Data;charset=utf-8 ; Boundary="a b"', "a b"),
        (b"multipart/form-data; boundary=x; y=z", "x"),
        (b"multipart/form-data;boundary=" + b"x" * 70, "x" * 70),
    ],
)
def test_boundaries_as_clients_write_them(content_type, boundary):
    """With quotes, parameters and any case."""
    body = form(MODEL, part("a", b""), boundary=boundary)
    found = read_of(body, content_type)
    assert isinstance(found, Form)
    assert (found.model, body[found.start : found.end]) == ("m", b"m")


def test_forms_as_httpx_writes_them():
    """The SDKs of OpenAI and others send theirs with it."""
    request = httpx2.Request(
        "POST",
        "http://gateway",
        data={"model": "whisper", "stream": "true"},
        files={"file": ("ä.wav", AUDIO)},
    )
    found = read_of(request.read(), request.headers["content-type"].encode())
    assert isinstance(found, Form)
    assert (found.model, found.stream) == ("whisper", True)


HOSTILE = {
    "no boundary": (form(MODEL), b"multipart/form-data"),
    "two boundaries": (form(MODEL), b"multipart/form-data; boundary=a; boundary=" + BOUNDARY.encode()),
    "empty boundary": (form(MODEL), b'multipart/form-data; boundary=""'),
    "long boundary": (form(MODEL, boundary="x" * 71), b"multipart/form-data; boundary=" + b"x" * 71),
    "odd boundary": (form(MODEL, boundary="a{"), b"multipart/form-data; boundary=a{"),
    "another kind": (form(MODEL), b"multipart/mixed; boundary=" + BOUNDARY.encode()),
    "another boundary": (form(MODEL, boundary="other"), None),
    "a preamble": (b"text\r\n" + form(MODEL), None),
    "cut off": (form(MODEL)[:-20], None),
    "cut in the head": (form(MODEL)[:60], None),
    "empty": (b"", None),
    "a longer boundary line": (form(MODEL, b"").replace(b"gW--", b"gWx--"), None),
    "two models": (form(MODEL, part("model", b"n")), None),
    "a file as model": (form(part("model", b"m", filename="m")), None),
    "two names": (form(MODEL.replace(b'"model"', b'"a"; name="model"')), None),
    "no name": (form(MODEL, b"Content-Disposition: form-data\r\n\r\nx"), None),
    "an escaped name": (form(MODEL, MODEL.replace(b'"model"', b'"mod\\el"')), None),
    "no disposition": (form(MODEL, b"Content-Type: a/b\r\n\r\nx"), None),
    "no headers": (form(MODEL, b"\r\nx"), None),
    "two dispositions": (
        form(part("a", b"m", more='content-disposition: form-data; name="model"\r\n')),
        None,
    ),
    "a folded header": (form(MODEL.replace(b"; name", b";\r\n name")), None),
    "a bare line feed": (form(part("a", b"", more="x: y\nContent-Disposition: z\r\n")), None),
    "an unclosed quote": (form(MODEL.replace(b'"model"', b'"model')), None),
    "no UTF-8": (form(part("model", b"\xff")), None),
    "a long name": (form(part("model", b"x" * (MAX_NAME_BYTES + 1))), None),
    "a long head": (form(part("model", b"m", more="x: " + "y" * MAX_PART_HEAD_BYTES + "\r\n")), None),
    "an extended name": (form(MODEL, MODEL.replace(b'name="model"', b"name*=UTF-8''model")), None),
    "a name and an extended name": (
        form(part("a", b"m").replace(b'name="a"', b"name=\"a\"; name*=UTF-8''model"), MODEL),
        None,
    ),
    "a name in parts": (form(MODEL.replace(b'name="model"', b'name="a"; name*0="mo"; name*1="del"')), None),
    "a file in parts as model": (form(MODEL.replace(b'"model"', b'"model"; filename*0="a"')), None),
    "a model in base64": (form(part("model", b"bQ==", more="Content-Transfer-Encoding: base64\r\n")), None),
    "a model in UTF-16": (
        form(part("model", b"m", more="Content-Type: a/b; charset=utf-16\r\n")),
        None,
    ),
    "a part that sets the encoding": (form(part("_charset_", b"utf-16"), MODEL), None),
    "a form in UTF-16": (form(MODEL), b"multipart/form-data; charset=utf-16; boundary=" + BOUNDARY.encode()),
    "many parameters": (form(MODEL.replace(b'"model"', b'"model"' + b"; a=b" * MAX_PARAMETERS)), None),
    "many headers": (form(part("model", b"m", more="a: b\r\n" * MAX_PART_HEADERS)), None),
    "many parts": (form(*[part("a", b"")] * MAX_PARTS, MODEL), None),
}


@pytest.mark.parametrize(("body", "content_type"), HOSTILE.values(), ids=HOSTILE)
def test_what_could_be_read_two_ways_is_refused(body, content_type):
    """With 400, and a message that says what is wrong."""
    refusal = read_of(body, content_type)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (400, "invalid_form")


def test_a_form_may_have_as_many_parts_as_the_limit_says():
    """Its end is none."""
    found = read_of(form(*[part("a", b"")] * (MAX_PARTS - 1), MODEL))
    assert isinstance(found, Form)
    assert found.model == "m"


@pytest.mark.parametrize("body", [form(FILE), form(part("model", b" ")), b"--" + BOUNDARY.encode() + b"--"])
async def test_a_form_without_a_model(start_gateway, endpoint, body):
    """It is told so, as JSON is."""
    gateway = await start_gateway(endpoint)
    response = await gateway.ask(body, PATHS[0], **kind())
    error = response.json["error"]
    assert (response.status, error["code"], error["param"]) == (400, "model_missing", "model")


async def test_what_is_neither_json_nor_a_form(start_gateway, endpoint):
    """Without a content-type that says otherwise a body is taken for JSON; with two it is refused."""
    gateway = await start_gateway(endpoint)
    assert (await gateway.ask(form(MODEL))).json["error"]["code"] == "invalid_json"
    two = {"content-type": f"text/plain\r\ncontent-type: {kind()['content-type']}"}
    assert (await gateway.ask(form(MODEL), **two)).json["error"]["code"] in ("invalid_form", "invalid_http")


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from([b"\r\n", b"--b", b"--b\r\n", b"\r\n--b", b"\r\n--b--", MODEL, b"\r\n\r\n"]),
        ),
        max_size=12,
    )
)
def test_any_bytes_are_read_or_refused(pieces):
    """Never an exception; and what is read is where it says."""
    body = b"".join(pieces)
    found = read_of(body, b"multipart/form-data; boundary=b")
    assert isinstance(found, Form | Refusal)
    if isinstance(found, Form):
        assert body[found.start : found.end].decode() == found.model
        again = read_of(found.with_model(body, "other"), b"multipart/form-data; boundary=b")
        assert isinstance(again, Form)
        assert again.model == "other"


@pytest.mark.parametrize(
    "filler", [b"\r\n--" + b"x" * 69, b"\r\n--", b"\r\n", b"--", b"\x00", b"\r\n--" + b"x" * 70 + b"y"]
)
def test_time_is_linear_in_the_body(filler):
    """A body full of what looks like a boundary cannot keep the gateway busy."""
    boundary = "x" * 70
    content = b"-" + filler * (8_000_000 // len(filler))
    body = form(part("a", content), MODEL, boundary=boundary)
    began = time.process_time()
    read_of(body, b"multipart/form-data; boundary=" + boundary.encode())
    assert time.process_time() - began < 15


def test_a_hostile_head_of_a_part_takes_linear_time():
    """Quotes, escapes and parameters without end are passed over once."""
    began = time.process_time()
    for odd in ('; a="\\', "; a=b", '"', "\\", ";", "; filename=", " "):
        heads = [part("a", b"").replace(b"\r\n\r\n", odd.encode() * (7000 // len(odd)) + b"\r\n\r\n")] * 50
        read_of(form(*heads, MODEL))
    assert time.process_time() - began < 15
