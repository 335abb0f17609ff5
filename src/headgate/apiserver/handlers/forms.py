"""Response formats of objects: complete, metadata only, or rows of a Table."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headgate.apiserver import tables
from headgate.apiserver.handlers import negotiation, query
from headgate.apiserver.objects import in_version
from headgate.apiserver.registry import Served
from headgate.apiserver.storage import Stored

Object = dict[str, Any]


@dataclass(frozen=True)
class Form:
    """The first format of the client's Accept header that is supported, and its meta.k8s.io version."""

    name: negotiation.FormName
    api_version: str
    include: tables.IncludeObject

    @classmethod
    def of(cls, request: Request) -> Form:
        name, version = negotiation.form(negotiation.accept(request.headers))
        return cls(name, f"meta.k8s.io/{version}", query.include(request))

    def one(self, served: Served, obj: Object, *, meta: Object, with_columns: bool = True) -> Object:
        """One object; `meta` is the metadata of the Table around it."""
        if self.name == "PartialObjectMetadata":
            return self.partial(obj)
        if self.name == "Table":
            return self.table(served, [obj], meta, with_columns=with_columns)
        return obj

    def partial(self, obj: Object) -> Object:
        return {"kind": "PartialObjectMetadata", "apiVersion": self.api_version, "metadata": obj["metadata"]}

    def table(
        self, served: Served, objects: Iterable[Object], meta: Object, *, with_columns: bool = True
    ) -> Object:
        made = tables.table(
            served,
            objects,
            metadata=meta,
            include=self.include,
            now=datetime.datetime.now(datetime.UTC),
            with_columns=with_columns,
        )
        made["apiVersion"] = self.api_version
        return made

    def list_head(self, served: Served) -> bytes:
        """The JSON of a list up to its metadata and items."""
        if self.name == "Table":
            head = self.table(served, [], {})
            del head["metadata"], head["rows"]
        elif self.name == "PartialObjectMetadata":
            head = {"kind": "PartialObjectMetadataList", "apiVersion": self.api_version}
        else:
            head = {"kind": served.list_kind, "apiVersion": served.api_version}
        return msgspec.json.encode(head)[:-1]

    @property
    def items_name(self) -> bytes:
        return b"rows" if self.name == "Table" else b"items"

    def items(self, served: Served, page: Iterable[Stored]) -> bytes:
        """Items of a list, separated by commas.

        Complete objects are the stored bytes, if they are stored in this version.
        """
        if self.name == "Table":
            objects = (in_version(stored.decode(), served) for stored in page)
            rows = self.table(served, objects, {}, with_columns=False)["rows"]
            return msgspec.json.encode(rows)[1:-1]
        if self.name == "PartialObjectMetadata":
            bodies = (msgspec.json.encode(self.partial(stored.decode())) for stored in page)
        elif served.api_version == served.storage_api_version:
            bodies = (stored.body for stored in page)
        else:
            bodies = (msgspec.json.encode(in_version(stored.decode(), served)) for stored in page)
        return b",".join(bodies)


def json(value: Any, code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), code, media_type="application/json")


# Encoded events for formats other than the stored one, shared by all watchers with that format.
MAX_ENCODINGS = 64
"""Encodings to keep: watchers with the same format read the same few events at about the same time."""
MAX_BYTES = 8 << 20
"""Size of the encodings and of their objects. The newest one is always kept."""


class _Encoded(NamedTuple):
    of: bytes
    """The stored bytes: objects of one revision may differ in what a watcher may see."""
    at_s: int
    """The second in which it was encoded: rows of Tables contain ages."""
    text: bytes

    @property
    def size(self) -> int:
        return len(self.of) + len(self.text)


_Key = tuple[Served, Form, bool, int]


class Encodings:
    """Caches the last encodings."""

    def __init__(self) -> None:
        self._kept: dict[_Key, _Encoded] = {}
        self._bytes = 0
        self._made = 0

    def get(
        self, served: Served, form: Form, stored: Stored, make: Callable[[], bytes], *, with_columns: bool
    ) -> bytes:
        """The encoding of an object, created if there is none from this second."""
        key, now_s = (served, form, with_columns, stored.revision), int(time.monotonic())
        found = self._kept.get(key)
        if found is not None and found.of is stored.body and found.at_s == now_s:
            return found.text
        text = make()
        self._made += 1
        self._keep(key, _Encoded(stored.body, now_s, text))
        return text

    def _keep(self, key: _Key, encoded: _Encoded) -> None:
        if (old := self._kept.pop(key, None)) is not None:
            self._bytes -= old.size
        if len(self._kept) >= MAX_ENCODINGS or self._bytes + encoded.size > MAX_BYTES:
            self._kept.clear()
            self._bytes = 0
        self._kept[key] = encoded
        self._bytes += encoded.size

    def statistics(self) -> dict[str, int]:
        return {"kept": len(self._kept), "bytes": self._bytes, "made": self._made}
