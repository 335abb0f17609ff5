"""Reads the model name in a multipart form, the format of audio requests, and replaces it.

Parts, their order, headers and files stay as the client sent them. A form that two parsers could interpret
differently is rejected, as the endpoint parses it again (RFC 7578, RFC 2046).
"""

from __future__ import annotations

import re

import msgspec

from headgate.requests.bodies.form_parts import Parts, UnclearError
from headgate.requests.client import Header
from headgate.requests.refusal import Refusal

BYTES_PER_TOKEN = 320
"""Estimate of the work in a form: 50 tokens per second of audio, as in Whisper, at 128 kbit/s."""

MAX_NAME_BYTES = 1024
MAX_TRUE_BYTES = 8

_MULTIPART = b"multipart/"
_FORM_DATA = re.compile(rb"multipart/form-data[ \t]*(?:;|$)", re.IGNORECASE)
_BOUNDARY = re.compile(rb';[ \t]*boundary=(?:"([^"]*)"|([^;" \t]*))', re.IGNORECASE)
_BOUNDARY_BYTES = re.compile(rb"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_CHARSET = re.compile(rb";[ \t]*charset(?!=\"?(?:utf-?8|us-ascii)\b)", re.IGNORECASE)
"""In the content-type of the whole form; some servers decode all its parts with it."""
READ = frozenset({b"model", b"stream"})
"""The parts that the gateway reads."""
_TRUE = frozenset({b"true", b"1", b"on", b"yes", b"t", b"y"})


class Form(msgspec.Struct, frozen=True):
    """Fields read from a form, and the position of its model name."""

    model: str
    stream: bool
    start: int
    end: int

    def with_model(self, body: bytes, model: str) -> bytes:
        return b"".join((body[: self.start], model.encode(), body[self.end :]))


def read(headers: list[Header], body: bytes | bytearray) -> Form | Refusal | None:
    """The form in a body, or why it cannot be routed; None for a body that is not declared as multipart.

    Takes time linear in the body.
    """
    try:
        boundary = _declared_boundary(headers)
        return None if boundary is None else _form(body, boundary)
    except UnclearError as error:
        return unclear(error)


def boundary_of(headers: list[Header]) -> bytes | None:
    """The boundary of a form that may be read as it comes; None if there is none, or `read` rejects it."""
    try:
        return _declared_boundary(headers)
    except UnclearError:
        return None


def values(
    headers: list[Header], body: bytes | bytearray, texts: frozenset[bytes], files: frozenset[bytes]
) -> dict[bytes, bytes] | Refusal | None:
    """The values of the named parts of a form, of which `files` are uploads; None and errors as in `read`."""
    try:
        boundary = _declared_boundary(headers)
        if boundary is None:
            return None
        parts = Parts(boundary, texts | files, files)
        parts.feed(body)
        parts.finish()
    except UnclearError as error:
        return unclear(error)
    return {name: bytes(body[start:end]) for name, (start, end) in parts.found.items()}


def _declared_boundary(headers: list[Header]) -> bytes | None:
    """The boundary in the headers; None if they declare no multipart body."""
    kinds = [value for name, value in headers if name == b"content-type"]
    if not any(kind[: len(_MULTIPART)].lower() == _MULTIPART for kind in kinds):
        return None
    if len(kinds) > 1:
        raise UnclearError("the request has more than one content-type")
    return _boundary(kinds[0])


def unclear(error: UnclearError) -> Refusal:
    """The rejection of a form that is not one, or ambiguous."""
    return Refusal.bad_request(f"the form cannot be read: {error}", code="invalid_form")


def _boundary(kind: bytes) -> bytes:
    if not _FORM_DATA.match(kind):
        raise UnclearError(f"{kind[:100].decode('latin-1')!r} is not multipart/form-data")
    if _CHARSET.search(kind):
        raise UnclearError("content-type has a charset: forms are read as UTF-8")
    found = _BOUNDARY.findall(kind)
    if len(found) != 1:
        raise UnclearError("content-type has no boundary" if not found else "content-type has two boundaries")
    boundary = found[0][0] or found[0][1]
    if not _BOUNDARY_BYTES.fullmatch(boundary):
        raise UnclearError("the boundary must have 1 to 70 letters, digits or '()+_,-./:=?")
    return bytes(boundary)


def _form(body: bytes | bytearray, boundary: bytes) -> Form | Refusal:
    parts = Parts(boundary, READ)
    parts.feed(body)
    parts.finish()
    place, stream = parts.found.get(b"model"), parts.found.get(b"stream")
    if place is None:
        return no_model()
    start, end = place
    model = model_of(body[start : min(end, start + MAX_NAME_BYTES + 1)])
    if not isinstance(model, str):
        return model
    return Form(model, stream is not None and is_true(body[stream[0] : stream[1]]), start, end)


def no_model() -> Refusal:
    return Refusal.bad_request(
        "the form has no model: add a part `model` with one of those that GET /v1/models lists",
        param="model",
        code="model_missing",
    )


def model_of(value: bytes | bytearray) -> str | Refusal:
    """The name in the content of the part `model`. Raises UnclearError."""
    if len(value) > MAX_NAME_BYTES:
        raise UnclearError(f"the part `model` is longer than {MAX_NAME_BYTES} bytes")
    try:
        model = value.decode()
    except UnicodeDecodeError as error:
        raise UnclearError("the part `model` is not UTF-8") from error
    if not model.strip():
        return Refusal.bad_request("the part `model` is empty", param="model", code="model_missing")
    return model


def is_true(value: bytes | bytearray) -> bool:
    """What the content of the part `stream` says."""
    return bytes(value[:MAX_TRUE_BYTES]).lower() in _TRUE
