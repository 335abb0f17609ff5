"""Reads the XML of S3: pages of a listing, and errors."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable
from typing import NamedTuple
from xml.parsers import expat

_MAX_TEXT = 16 << 10
_MAX_DEPTH = 16


class Object(NamedTuple):
    key: str
    size: int
    etag: str


class Page(NamedTuple):
    objects: list[Object]
    next_token: str
    """Empty on the last page."""


class Failure(NamedTuple):
    code: str
    message: str


def page(body: bytes) -> Page:
    """Raises ValueError if the body is no page of a listing."""
    rows: list[dict[str, str]] = []
    top: dict[str, str] = {}

    def take(path: tuple[str, ...], text: str) -> None:
        match path:
            case ("ListBucketResult", "Contents"):
                rows.append({})
            case ("ListBucketResult", "Contents", name) if rows:
                rows[-1][name] = text
            case ("ListBucketResult", name):
                top[name] = text

    if _parse(body, take) != "ListBucketResult":
        raise ValueError("not a ListBucketResult")
    is_encoded = top.get("EncodingType") == "url"
    objects = [_object(row, is_encoded) for row in rows]
    token = top.get("NextContinuationToken", "") if top.get("IsTruncated") == "true" else ""
    return Page(objects, token)


def failure(body: bytes) -> Failure:
    """The error in a response; empty if there is none that can be read."""
    found: dict[str, str] = {}

    def take(path: tuple[str, ...], text: str) -> None:
        if len(path) == 2 and path[0] == "Error":
            found[path[1]] = text

    try:
        _parse(body, take)
    except ValueError:
        return Failure("", "")
    shown = "".join(each if each.isprintable() else " " for each in found.get("Message", ""))
    return Failure(found.get("Code", ""), shown[:300])


def _object(row: dict[str, str], is_encoded: bool) -> Object:
    key, size = row.get("Key", ""), row.get("Size", "")
    if not key or not re.fullmatch(r"[0-9]{1,18}", size):
        raise ValueError("an object without a key or size")
    return Object(
        urllib.parse.unquote_plus(key) if is_encoded else key, int(size), row.get("ETag", "").strip('"')
    )


def _parse(body: bytes, take: Callable[[tuple[str, ...], str], None]) -> str:
    """Call `take` with the path and text of each element: at its end, and for Contents at its start.

    Returns the name of the root element. Raises ValueError.
    """
    parser = expat.ParserCreate(namespace_separator=" ")
    path: list[str] = []
    roots: list[str] = []
    text: list[str] = []

    def start(name: str, _attributes: dict[str, str]) -> None:
        path.append(name.rpartition(" ")[2])
        if len(path) > _MAX_DEPTH:
            raise ValueError("XML that is nested too deeply")
        if len(path) == 1:
            roots.append(path[0])
        text.clear()
        if path[-1] == "Contents":
            take(tuple(path), "")

    def end(_name: str) -> None:
        if path[-1] != "Contents":
            take(tuple(path), "".join(text))
        path.pop()
        text.clear()

    def data(piece: str) -> None:
        text.append(piece)
        if sum(map(len, text)) > _MAX_TEXT:
            raise ValueError("XML with a text that is too long")

    def refuse(*_: object) -> None:
        raise ValueError("XML with a document type")

    parser.buffer_text = True
    parser.buffer_size = _MAX_TEXT
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = data, refuse
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise ValueError(f"no XML: {error}") from error
    return roots[0]
