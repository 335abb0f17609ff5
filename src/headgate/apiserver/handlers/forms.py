"""The forms in which objects are answered: whole, their metadata alone, or as rows of a Table."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
    """What the client takes first of what there is, and the version of meta.k8s.io that it is in."""

    name: negotiation.FormName
    api_version: str
    include: tables.IncludeObject

    @classmethod
    def of(cls, request: Request) -> Form:
        name, version = negotiation.form(negotiation.accept(request.headers))
        return cls(name, f"meta.k8s.io/{version}", query.include(request))

    def one(self, served: Served, obj: Object, *, meta: Object, with_columns: bool = True) -> Object:
        """An object; `meta` is the metadata of the Table around it."""
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
        """The JSON of a list without its end, its metadata and its items."""
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
        """Items of a list, with commas between them.

        Whole objects are the stored bytes as they are, if they are stored in this version.
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
