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
        name, version = negotiation.form(request.headers.get("accept", ""))
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

    def page(self, served: Served, page: Iterable[Stored], meta: Object) -> bytes:
        """A list. Whole objects are the stored bytes as they are, if they are stored in this version."""
        if self.name == "Table":
            objects = (in_version(stored.decode(), served) for stored in page)
            return msgspec.json.encode(self.table(served, objects, meta))
        head: Object = {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": meta}
        if self.name == "PartialObjectMetadata":
            head |= {"kind": "PartialObjectMetadataList", "apiVersion": self.api_version}
            bodies = (msgspec.json.encode(self.partial(stored.decode())) for stored in page)
        elif served.api_version == served.storage_api_version:
            bodies = (stored.body for stored in page)
        else:
            bodies = (msgspec.json.encode(in_version(stored.decode(), served)) for stored in page)
        return msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(bodies) + b"]}"


def json(value: Any, code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), code, media_type="application/json")
