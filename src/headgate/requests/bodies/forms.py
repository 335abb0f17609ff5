"""Reads the model name in a multipart form, the format of audio requests, and replaces it.

Parts, their order, headers and files stay as the client sent them. A form that two parsers could interpret
differently is rejected, as the endpoint parses it again (RFC 7578, RFC 2046).
"""

from __future__ import annotations

import re

import msgspec

from headgate.requests.client import Header
from headgate.requests.refusal import Refusal

BYTES_PER_TOKEN = 320
"""Estimate of the work in a form: 50 tokens per second of audio, as in Whisper, at 128 kbit/s."""

MAX_PARTS = 1000
MAX_PART_HEAD_BYTES = 4 * 1024
MAX_PART_HEADERS = 16
MAX_PARAMETERS = 8
"""Of the content-disposition of a part."""
SEARCHED_BYTES = 1 << 20
"""Searched for a boundary in one step, as a step blocks all other threads."""
MAX_NAME_BYTES = 1024

_MULTIPART = b"multipart/"
_FORM_DATA = re.compile(rb"multipart/form-data[ \t]*(?:;|$)", re.IGNORECASE)
_BOUNDARY = re.compile(rb';[ \t]*boundary=(?:"([^"]*)"|([^;" \t]*))', re.IGNORECASE)
_BOUNDARY_BYTES = re.compile(rb"[0-9A-Za-z'()+_,\-./:=? ]{0,69}[0-9A-Za-z'()+_,\-./:=?]")
_DISPOSITION = re.compile(rb"content-disposition[ \t]*:", re.IGNORECASE)
_PARAMETER = re.compile(rb';[ \t]*([^=;" \t]+)=(?:"((?:[^"\\]|\\.)*+)"|([^;" \t]*+))[ \t]*+')
_KIND = re.compile(rb"[ \t]*form-data[ \t]*", re.IGNORECASE)
_RECODED = re.compile(
    rb"content-transfer-encoding[ \t]*:(?![ \t]*(?:7bit|8bit|binary)[ \t]*$)"
    rb"|content-type[ \t]*:.*charset(?![ \t]*=[ \t]*\"?(?:utf-?8|us-ascii)\b)",
    re.IGNORECASE,
)
_CHARSET = re.compile(rb";[ \t]*charset(?!=\"?(?:utf-?8|us-ascii)\b)", re.IGNORECASE)
"""In the content-type of the whole form; some servers decode all its parts with it."""
_READ = frozenset({b"model", b"stream"})
_NONE: frozenset[bytes] = frozenset()
_CHARSET_PART = b"_charset_"
"""Sets the encoding of all other parts, where it is honored (RFC 7578, 4.6)."""
_TRUE = frozenset({b"true", b"1", b"on", b"yes", b"t", b"y"})


class Form(msgspec.Struct, frozen=True):
    """Fields read from a form, and the position of its model name."""

    model: str
    stream: bool
    start: int
    end: int

    def with_model(self, body: bytes, model: str) -> bytes:
        return b"".join((body[: self.start], model.encode(), body[self.end :]))


class _UnclearError(ValueError):
    """The body is not a form, or is ambiguous."""


def read(headers: list[Header], body: bytes | bytearray) -> Form | Refusal | None:
    """The form in a body, or why it cannot be routed; None for a body that is not declared as multipart.

    Takes time linear in the body.
    """
    try:
        boundary = _declared_boundary(headers)
        return None if boundary is None else _form(body, boundary)
    except _UnclearError as error:
        return _unclear(error)


def values(
    headers: list[Header], body: bytes | bytearray, texts: frozenset[bytes], files: frozenset[bytes]
) -> dict[bytes, bytes] | Refusal | None:
    """The values of the named parts of a form, of which `files` are uploads; None and errors as in `read`."""
    try:
        boundary = _declared_boundary(headers)
        if boundary is None:
            return None
        places = _parts(body, boundary, texts | files, files)
    except _UnclearError as error:
        return _unclear(error)
    return {name: bytes(body[start:end]) for name, (start, end) in places.items()}


def _declared_boundary(headers: list[Header]) -> bytes | None:
    """The boundary in the headers; None if they declare no multipart body."""
    kinds = [value for name, value in headers if name == b"content-type"]
    if not any(kind[: len(_MULTIPART)].lower() == _MULTIPART for kind in kinds):
        return None
    if len(kinds) > 1:
        raise _UnclearError("the request has more than one content-type")
    return _boundary(kinds[0])


def _unclear(error: _UnclearError) -> Refusal:
    return Refusal.bad_request(f"the form cannot be read: {error}", code="invalid_form")


def _boundary(kind: bytes) -> bytes:
    if not _FORM_DATA.match(kind):
        raise _UnclearError(f"{kind[:100].decode('latin-1')!r} is not multipart/form-data")
    if _CHARSET.search(kind):
        raise _UnclearError("content-type has a charset: forms are read as UTF-8")
    found = _BOUNDARY.findall(kind)
    if len(found) != 1:
        raise _UnclearError(
            "content-type has no boundary" if not found else "content-type has two boundaries"
        )
    boundary = found[0][0] or found[0][1]
    if not _BOUNDARY_BYTES.fullmatch(boundary):
        raise _UnclearError("the boundary must have 1 to 70 letters, digits or '()+_,-./:=?")
    return bytes(boundary)


def _form(body: bytes | bytearray, boundary: bytes) -> Form | Refusal:
    fields = _parts(body, boundary)
    place = fields.get(b"model")
    if place is None:
        return Refusal.bad_request(
            "the form has no model: add a part `model` with one of those that GET /v1/models lists",
            param="model",
            code="model_missing",
        )
    start, end = place
    if end - start > MAX_NAME_BYTES:
        raise _UnclearError(f"the part `model` is longer than {MAX_NAME_BYTES} bytes")
    try:
        model = body[start:end].decode()
    except UnicodeDecodeError as error:
        raise _UnclearError("the part `model` is not UTF-8") from error
    if not model.strip():
        return Refusal.bad_request("the part `model` is empty", param="model", code="model_missing")
    stream = fields.get(b"stream")
    is_stream = stream is not None and bytes(body[stream[0] : min(stream[1], stream[0] + 8)]).lower() in _TRUE
    return Form(model, is_stream, start, end)


def _parts(
    body: bytes | bytearray,
    boundary: bytes,
    wanted: frozenset[bytes] = _READ,
    files: frozenset[bytes] = _NONE,
) -> dict[bytes, tuple[int, int]]:
    """Start and end of the values of the wanted parts, of which `files` are uploads; others are skipped."""
    delimiter = b"\r\n--" + boundary
    if not body.startswith(delimiter[2:]):
        raise _UnclearError("it does not begin with the boundary of content-type")
    found: dict[bytes, tuple[int, int]] = {}
    at = len(delimiter) - 2
    for _ in range(MAX_PARTS):
        after = body[at : at + 2]
        if after == b"--":
            return found
        if after != b"\r\n":
            raise _UnclearError("a boundary is followed by something else on its line")
        head_end = body.find(b"\r\n\r\n", at, at + MAX_PART_HEAD_BYTES)
        if head_end < 0:
            raise _UnclearError(f"the head of a part does not end within {MAX_PART_HEAD_BYTES} bytes")
        start = head_end + 4
        end = _find(body, delimiter, start)
        if end < 0:
            raise _UnclearError("it ends without its last boundary")
        lines = bytes(body[at + 2 : head_end]).split(b"\r\n")
        name, is_file = _name(lines)
        if name in wanted or name == _CHARSET_PART:
            if name == _CHARSET_PART or any(_RECODED.match(line) for line in lines):
                raise _UnclearError(f"the part `{name.decode()}` sets an encoding: parts are read as UTF-8")
            is_upload = name in files
            if name in found or is_file != is_upload:
                told = "occurs twice" if name in found else "is a file" if is_file else "is not a file"
                raise _UnclearError(f"the part `{name.decode()}` {told}")
            found[name] = (start, end)
        at = end + len(delimiter)
    raise _UnclearError(f"it has more than {MAX_PARTS} parts")


def _find(body: bytes | bytearray, delimiter: bytes, start: int) -> int:
    for at in range(start, len(body), SEARCHED_BYTES):
        found = body.find(delimiter, at, at + SEARCHED_BYTES + len(delimiter) - 1)
        if found >= 0:
            return found
    return -1


def _name(lines: list[bytes]) -> tuple[bytes, bool]:
    """The name of a part by its headers, and whether it is a file."""
    if len(lines) > MAX_PART_HEADERS:
        raise _UnclearError(f"a part has more than {MAX_PART_HEADERS} headers")
    if any(line[:1] in (b" ", b"\t") or b"\n" in line or b"\r" in line for line in lines):
        raise _UnclearError("a header of a part continues on a second line")
    told = [line for line in lines if _DISPOSITION.match(line)]
    if len(told) != 1:
        raise _UnclearError("a part must have one content-disposition")
    value = told[0].partition(b":")[2]
    kind = _KIND.match(value)
    at = kind.end() if kind is not None else -1
    names: list[bytes] = []
    is_file = False
    for _ in range(MAX_PARAMETERS):
        parameter = _PARAMETER.match(value, at) if at >= 0 else None
        if parameter is None:
            break
        key = parameter[1].lower()
        if key == b"name":
            names.append(parameter[2] if parameter[2] is not None else parameter[3])
        elif key.startswith(b"name*"):
            raise _UnclearError("a part has `name*`, which some servers read and others do not: use `name`")
        is_file |= key.startswith(b"filename")
        at = parameter.end()
    if at != len(value) or len(names) != 1 or b"\\" in names[0]:
        raise _UnclearError('the content-disposition of a part must be: form-data; name="..."')
    return names[0], is_file
