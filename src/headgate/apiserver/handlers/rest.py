"""Requests for objects: from a path, a method and a query to a verb, and back to JSON."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headgate.apiserver import admission, builtin, errors, patch, reviews, selectors, tables
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.handlers import bodies, logs, negotiation, watching
from headgate.apiserver.objects import Objects, Outcome, in_version
from headgate.apiserver.registry import Served
from headgate.apiserver.selectors import Selector
from headgate.apiserver.storage import Stored
from headgate.apiserver.targets import FieldValidation, Target, WriteOptions
from headgate.apiserver.watch import Hub

Object = dict[str, Any]

MAX_PAGE = 100_000


@dataclass(frozen=True)
class Rest:
    """The handlers and what they need."""

    objects: Objects
    hub: Hub
    bookmark_s: float

    async def handle(self, request: Request, group: str, version: str, parts: list[str]) -> Response:
        """Answers any request below /api/v1/ or /apis/GROUP/VERSION/."""
        target = self._target(group, version, parts)
        method = request.method
        if target.served.verbs == ("create",):
            if method != "POST" or target.name:
                raise errors.method_not_allowed(method)
            return await self._review(request, target)
        if target.subresource == "log":
            if method != "GET":
                raise errors.method_not_allowed(method)
            return await logs.proxy(self.objects, target, request)
        if target.name:
            return await self._one(method, request, target)
        match method:
            case "GET" if _flag(request, "watch"):
                return self._watch(request, target)
            case "GET":
                return self._list(request, target)
            case "POST":
                return await self._create(request, target)
            case "DELETE":
                return await self._delete_collection(request, target)
        raise errors.method_not_allowed(method)

    def _target(self, group: str, version: str, parts: list[str]) -> Target:
        namespace = ""
        # /namespaces/NAME is a Namespace, /namespaces/NAME/PLURAL is what is in it.
        if len(parts) >= 3 and parts[0] == builtin.NAMESPACE and parts[2] not in ("status", "finalize"):
            namespace, parts = parts[1], parts[2:]
        served = self.objects.registry.find(group, version, parts[0]) if parts else None
        if served is None or len(parts) > 3 or (namespace and not served.namespaced):
            raise errors.no_such_path()
        name, subresource = [*parts[1:], "", ""][:2]
        if name and served.namespaced and not namespace:
            raise errors.no_such_path()
        if subresource and subresource not in served.all_subresources:
            raise errors.no_such_path()
        return Target(served, namespace, name, subresource)

    async def _review(self, request: Request, target: Target) -> Response:
        body = await bodies.read(request)
        obj, _ = bodies.decode_object(body, bodies.media_type(request))
        admission.receive(target, obj)
        return _json(reviews.answer(target, obj, request.user, self.objects.registry, request.auth), 201)

    async def _one(self, method: str, request: Request, target: Target) -> Response:
        match method:
            case "GET":
                return self._get(request, target)
            case "PUT":
                options = _write_options(request)
                body = await bodies.read(request)
                obj, complaints = bodies.decode_object(body, bodies.media_type(request))
                return self._answer(request, target, self.objects.update(target, obj, options, complaints))
            case "PATCH":
                return await self._patch(request, target)
            case "DELETE" if not target.subresource:
                how = await _delete_options(request)
                obj, gone = self.objects.delete(target, how, dry_run=bool(how.dry_run))
                return _json(_deleted(target, obj) if gone and target.served.resource != builtin.POD else obj)
        raise errors.method_not_allowed(method)

    # -- reads

    def _get(self, request: Request, target: Target) -> Response:
        as_table = negotiation.wants_table(request.headers.get("accept", ""))
        if target.subresource == "scale":
            scale = self.objects.scale(target)
            if as_table:
                now = datetime.datetime.now(datetime.UTC)
                scale = tables.scale_table(scale, include=_include(request), now=now)
            return _json(scale)
        if as_table:
            obj = self.objects.get(target)
            meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            return _json(_table(request, target.served, [obj], meta))
        if target.served.api_version == target.served.storage_api_version:
            return Response(self.objects.stored(target).body, media_type="application/json")
        return _json(self.objects.get(target))

    def _list(self, request: Request, target: Target) -> Response:
        served, selector = target.served, _selector(request, target.served)
        limit = _integer(request, "limit")
        limit = min(limit, MAX_PAGE) if limit > 0 else MAX_PAGE
        revision, after = self._continue(request, served)
        page: list[Stored] = []
        more = False
        for stored in self.objects.select(served, target.namespace, selector, after):
            if len(page) == limit:
                more = True
                break
            page.append(stored)
        meta: Object = {"resourceVersion": str(revision)}
        if more:
            last = (page[-1].key.namespace, page[-1].key.name)
            meta["continue"] = _continue_token(revision, last)
            if not selector:
                meta["remainingItemCount"] = self.objects.store.count(served.resource, target.namespace, last)
        if negotiation.wants_table(request.headers.get("accept", "")):
            objects = [in_version(stored.decode(), served) for stored in page]
            return _json(_table(request, served, objects, meta))
        return Response(_list_body(served, page, meta), media_type="application/json")

    def _continue(self, request: Request, served: Served) -> tuple[int, tuple[str, str]]:
        """The revision that a list claims to be of, and the position to go on behind.

        Later pages show newer objects under the first page's revision. That is safe: a watch from there sends
        every change again. It needs the log to reach back that far, so an older token is expired.
        """
        token = request.query_params.get("continue")
        if not token:
            return self.objects.store.revision, ("", "")
        try:
            revision, namespace, name = msgspec.json.decode(
                base64.urlsafe_b64decode(token), type=tuple[int, str, str]
            )
        except (ValueError, msgspec.DecodeError) as error:
            raise errors.bad_request(f"continue key is not valid: {error}") from error
        self.hub.check(served.resource, revision)
        return revision, (namespace, name)

    def _watch(self, request: Request, target: Target) -> Response:
        text = request.query_params.get("resourceVersion") or "0"
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise errors.bad_request(f"resourceVersion: Invalid value: {text!r}: must be a number")
        spec = watching.WatchSpec(
            served=target.served,
            namespace=target.namespace,
            selector=_selector(request, target.served),
            since=int(text),
            initial=_flag(request, "sendInitialEvents") or int(text) == 0,
            initial_end=_flag(request, "sendInitialEvents"),
            bookmark_s=self.bookmark_s if _flag(request, "allowWatchBookmarks") else None,
            timeout_s=_integer(request, "timeoutSeconds"),
            table=negotiation.wants_table(request.headers.get("accept", "")),
            include=_include(request),
        )
        return watching.stream(self.objects, self.hub, spec)

    # -- writes

    async def _create(self, request: Request, target: Target) -> Response:
        options = _write_options(request)
        body = await bodies.read(request)
        obj, complaints = bodies.decode_object(body, bodies.media_type(request))
        if target.served.namespaced and not target.namespace:
            raise errors.method_not_allowed("POST")
        return self._answer(request, target, self.objects.create(target, obj, options, complaints))

    async def _patch(self, request: Request, target: Target) -> Response:
        options = _write_options(request)
        media = bodies.media_type(request)
        body = await bodies.read(request)
        if media == patch.APPLY_MEDIA_TYPE:
            if not request.query_params.get("fieldManager"):
                raise errors.bad_request("fieldManager is required for apply patch")
            obj, complaints = bodies.decode_object(body, media)
            return self._answer(request, target, self.objects.apply(target, obj, options, complaints))
        if (kind := patch.MEDIA_TYPES.get(media)) is None:
            raise errors.unsupported_media_type(patch.ALL_MEDIA_TYPES)
        return self._answer(request, target, self.objects.patch(target, kind, bodies.decode(body), options))

    async def _delete_collection(self, request: Request, target: Target) -> Response:
        options = await _delete_options(request)
        if target.served.namespaced and not target.namespace:
            raise errors.method_not_allowed("DELETE")
        selector = _selector(request, target.served)
        found = list(self.objects.select(target.served, target.namespace, selector))
        items = []
        for stored in found:
            one = replace(target, namespace=stored.key.namespace, name=stored.key.name)
            items.append(self.objects.delete(one, options, dry_run=bool(options.dry_run))[0])
        meta = {"resourceVersion": str(self.objects.store.revision)}
        served = target.served
        return _json(
            {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": meta, "items": items}
        )

    def _answer(self, request: Request, target: Target, outcome: Outcome) -> Response:
        obj: Object = outcome.obj
        if negotiation.wants_table(request.headers.get("accept", "")) and target.subresource != "scale":
            obj = _table(request, target.served, [obj], {})
        response = _json(obj, 201 if outcome.created else 200)
        for warning in outcome.warnings[:20]:
            text = (
                warning.replace("\\", "\\\\").replace('"', '\\"').encode("ascii", "backslashreplace").decode()
            )
            response.headers.append("Warning", f'299 - "{text[:400]}"')
        return response


def _json(value: Any, code: int = 200) -> Response:
    return Response(msgspec.json.encode(value), code, media_type="application/json")


def _list_body(served: Served, page: Iterable[Stored], meta: Object) -> bytes:
    """A list whose items are the stored bytes as they are, unless they are stored in another version."""
    if served.api_version == served.storage_api_version:
        items = b",".join(stored.body for stored in page)
    else:
        items = b",".join(msgspec.json.encode(in_version(stored.decode(), served)) for stored in page)
    head = {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": meta}
    return msgspec.json.encode(head)[:-1] + b',"items":[' + items + b"]}"


def _table(request: Request, served: Served, objects: Iterable[Object], meta: Object) -> Object:
    now = datetime.datetime.now(datetime.UTC)
    return tables.table(served, objects, metadata=meta, include=_include(request), now=now)


def _include(request: Request) -> tables.IncludeObject:
    value = request.query_params.get("includeObject", "Metadata")
    if value not in ("None", "Metadata", "Object"):
        raise errors.bad_request(f"includeObject: Unsupported value: {value!r}: None, Metadata or Object")
    return cast(tables.IncludeObject, value)


def _deleted(target: Target, obj: Object) -> Object:
    details = {"name": target.name, "group": target.served.group, "kind": target.served.plural}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**details, "uid": obj["metadata"]["uid"]},
    }


# -- the query


def _flag(request: Request, name: str) -> bool:
    return request.query_params.get(name, "").lower() in ("true", "1")


def _integer(request: Request, name: str) -> int:
    text = request.query_params.get(name) or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise errors.bad_request(f"{name}: Invalid value: {text!r}: must be a number")
    return int(text)


def _selector(request: Request, served: Served) -> Selector:
    query = request.query_params
    fields = builtin.selectable_fields(served.resource)
    return selectors.parse(query.get("labelSelector"), query.get("fieldSelector"), fields)


def _continue_token(revision: int, position: tuple[str, str]) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((revision, *position))).decode()


def _write_options(request: Request) -> WriteOptions:
    query = request.query_params
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        raise errors.bad_request(
            f"fieldValidation: Unsupported value: {validation!r}: Ignore, Warn or Strict"
        )
    manager = query.get("fieldManager") or request.headers.get("user-agent", "unknown").partition("/")[0]
    if len(manager) > 128 or not manager.isprintable():
        raise errors.bad_request("fieldManager: Invalid value: must be at most 128 printable characters")
    return WriteOptions(
        dry_run=_dry_run(query.getlist("dryRun")),
        field_manager=manager,
        field_validation=cast(FieldValidation, validation),
        force=_flag(request, "force"),
    )


def _dry_run(values: list[str]) -> bool:
    if any(value not in ("", "All") for value in values):
        raise errors.bad_request(f"dryRun: Unsupported value: {values}: supported values: All")
    return "All" in values


async def _delete_options(request: Request) -> DeleteOptions:
    body = await bodies.read(request)
    options = DeleteOptions()
    if body:
        sent, _ = bodies.decode_object(body, bodies.media_type(request))
        options = msgspec.convert(sent, DeleteOptions)
    query = request.query_params
    from_query: Object = {}
    if "gracePeriodSeconds" in query:
        from_query["grace_period_seconds"] = _integer(request, "gracePeriodSeconds")
    if policy := query.get("propagationPolicy"):
        if policy not in ("Orphan", "Background", "Foreground"):
            raise errors.bad_request(f"propagationPolicy: Unsupported value: {policy!r}")
        from_query["propagation_policy"] = policy
    if _dry_run(query.getlist("dryRun")):
        from_query["dry_run"] = ["All"]
    return msgspec.structs.replace(options, **from_query)
