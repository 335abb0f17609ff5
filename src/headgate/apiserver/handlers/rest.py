"""Requests for objects: from path, method and query to a verb, and back to JSON."""

from __future__ import annotations

import datetime
import functools
import re
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headgate.apiserver import admission, builtin, deletion, errors, patch, reviews, tables
from headgate.apiserver.account_tokens import AccountTokens
from headgate.apiserver.calls import Call
from headgate.apiserver.deletion import DeleteOptions
from headgate.apiserver.handlers import bodies, changes, listing, logs, query, watching, writing
from headgate.apiserver.handlers.forms import Encodings, Form, json
from headgate.apiserver.objects import Objects
from headgate.apiserver.selectors import Selector
from headgate.apiserver.snapshots import Position, Scan
from headgate.apiserver.targets import Target, WriteOptions
from headgate.apiserver.watch import Hub

Object = dict[str, Any]
T = TypeVar("T")

AT_ONCE = 10
"""Objects of a collection that are deleted before other requests run; fewer if they are large."""
MAX_DELETED_BYTES = 16 << 20
"""Deleted objects that a response includes; above that, it only reports success."""
_UNSUPPORTED = {"POST": "create", "DELETE": "delete"}
"""Methods of no subresource of custom kinds, and their verbs."""
_OF_PODS = frozenset({"log", "binding", "eviction", *changes.NOT_HERE})


@dataclass(frozen=True)
class Rest:
    """The request handlers and their dependencies."""

    objects: Objects
    hub: Hub
    writer: writing.Writer
    account_tokens: AccountTokens
    bookmark_s: float
    encodings: Encodings = field(default_factory=Encodings)

    async def handle(self, request: Request, group: str, version: str, parts: list[str]) -> Response:
        """Handle any request below /api/v1/ or /apis/GROUP/VERSION/."""
        target = self._target(group, version, parts)
        try:
            response = await self._do(request, target)
        except errors.StatusError as error:
            error.warning = target.served.deprecation
            raise
        if target.served.deprecation:
            warn(response, target.served.deprecation)
        return response

    async def _do(self, request: Request, target: Target) -> Response:
        method = request.method
        if target.served.verbs == ("create",):
            if method != "POST" or target.name:
                raise errors.method_not_allowed()
            return await self._review(request, target)
        if target.served.resource == builtin.POD and target.subresource in _OF_PODS:
            return await self._of_pod(request, target)
        if target.subresource == "token":
            if method != "POST":
                raise errors.method_not_allowed()
            asked = await bodies.read_question(request)
            changes.check(asked, ("authentication.k8s.io/v1", "TokenRequest"))
            return json(self.account_tokens.issue(target, asked), 201)
        if target.name:
            return await self._one(method, request, target)
        match method:
            case "GET" if query.flag(request, "watch"):
                return self._watch(request, target)
            case "GET":
                return self._list(request, target)
            case "POST":
                return await self._create(request, target)
            case "DELETE":
                return await self._delete_collection(request, target)
        raise errors.method_not_allowed()

    async def _of_pod(self, request: Request, target: Target) -> Response:
        if target.subresource in changes.NOT_HERE:
            raise changes.refusal(self.objects, target)
        if request.method != ("GET" if target.subresource == "log" else "POST"):
            raise errors.method_not_allowed()
        match target.subresource:
            case "log":
                _call(request).log()
                return await logs.proxy(self.objects, target, request)
            case "binding":
                body = await bodies.read(request, bodies.MAX_QUESTION_BYTES)
                options = query.write_options(request, "CreateOptions")
                change = changes.Change("bind", bodies.media_type(request), body, options)
                await self.writer.write(_call(request), target, change)
                return json(changes.done(), 201)
            case _:
                eviction = await bodies.read_question(request)
                options = query.write_options(request, "CreateOptions")
                return json(changes.evict(self.objects, target, eviction, options), 201)

    def _target(self, group: str, version: str, parts: list[str]) -> Target:
        namespace = ""
        # /namespaces/NAME is a Namespace, /namespaces/NAME/PLURAL lists objects in it.
        if len(parts) >= 3 and parts[0] == builtin.NAMESPACE and parts[2] not in ("status", "finalize"):
            namespace, parts = parts[1], parts[2:]
        served = self.objects.registry.find(group, version, parts[0]) if parts else None
        if parts[3:] and parts[2] == "proxy":  # the proxy subresource has further path segments
            parts = parts[:3]
        if served is None or len(parts) > 3 or (namespace and not served.namespaced):
            raise errors.no_such_path()
        name, subresource = [*parts[1:], "", ""][:2]
        if name and served.namespaced and not namespace:
            raise errors.no_such_path()
        refused = served.resource == builtin.POD and subresource in changes.NOT_HERE
        if subresource and subresource not in served.all_subresources and not refused:
            raise errors.not_found(group, parts[0], name) if served.custom else errors.no_such_path()
        return Target(served, namespace, name, subresource)

    async def _review(self, request: Request, target: Target) -> Response:
        obj = await bodies.read_question(request)
        admission.receive(target, obj)
        return json(reviews.answer(target, obj, request.user, self.objects.registry, request.auth), 201)

    async def _one(self, method: str, request: Request, target: Target) -> Response:
        if target.subresource == "finalize" and method != "PUT":
            raise errors.method_not_allowed()
        match method:
            case "GET":
                return self._get(request, target)
            case "PUT":
                options = query.write_options(request, "UpdateOptions")
                return await self._write(request, target, "update", options, await bodies.read(request))
            case "PATCH":
                return await self._patch(request, target)
            case "DELETE" if not target.subresource:
                how = await query.delete_options(request)
                delete = functools.partial(self.objects.delete, target, how, dry_run=bool(how.dry_run))
                obj, gone = await self._stored(delete)
                if gone and target.served.resource == builtin.POD:
                    deletion.note(obj, datetime.datetime.now(datetime.UTC))
                is_shown = not gone or target.served.resource in builtin.RETURNED_WHEN_DELETED
                return json(obj if is_shown else _deleted(target, obj))
        if target.served.custom and target.subresource and method in _UNSUPPORTED:
            served = target.served
            raise errors.not_supported(_UNSUPPORTED[method], served.group, served.plural)
        raise errors.method_not_allowed()

    # -- reads

    def _get(self, request: Request, target: Target) -> Response:
        form = Form.of(request)
        if (revision := query.revision(request) or 0) > self.objects.store.revision:
            raise errors.too_large_revision(revision, self.objects.store.revision)
        if target.subresource == "scale":
            scale = self.objects.scale(target)
            if form.name == "Table":
                now = datetime.datetime.now(datetime.UTC)
                scale = tables.scale_table(scale, include=form.include, now=now)
            return json(scale)
        if form.name == "Object" and target.served.api_version == target.served.storage_api_version:
            return Response(self.objects.stored(target).body, media_type="application/json")
        obj = self.objects.get(target)
        meta = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        return json(form.one(target.served, obj, meta=meta))

    def _list(self, request: Request, target: Target) -> Response:
        options = query.list_options(request, watch=False)
        selector = query.selector(request, target.served)
        return listing.answer(
            self.objects, self.hub, target, selector, options, Form.of(request), _call(request)
        )

    def _watch(self, request: Request, target: Target) -> Response:
        options = query.list_options(request, watch=True)
        spec = watching.WatchSpec(
            served=target.served,
            namespace=target.namespace,
            selector=query.selector(request, target.served),
            since=self.objects.store.told if options.revision is None else options.revision,
            initial=not options.revision if options.initial_events is None else options.initial_events,
            initial_end=bool(options.initial_events),
            bookmark_s=self.bookmark_s if options.bookmarks else None,
            timeout_s=options.timeout_s,
            form=Form.of(request),
        )
        return watching.stream(self.objects, self.hub, self.encodings, spec, _call(request))

    # -- writes

    async def _create(self, request: Request, target: Target) -> Response:
        options = query.write_options(request, "CreateOptions")
        body = await bodies.read(request)
        if target.served.namespaced and not target.namespace:
            raise errors.no_such_path() if target.served.custom else errors.method_not_allowed()
        return await self._write(request, target, "create", options, body)

    async def _patch(self, request: Request, target: Target) -> Response:
        media = bodies.media_type(request)
        options = query.write_options(request, "PatchOptions", apply=media == patch.APPLY_MEDIA_TYPE)
        verb = "apply" if media == patch.APPLY_MEDIA_TYPE else patch.MEDIA_TYPES.get(media)
        if verb is None:
            accepted = patch.CUSTOM_MEDIA_TYPES if target.served.custom else patch.ALL_MEDIA_TYPES
            raise errors.unsupported_media_type(accepted)
        return await self._write(request, target, verb, options, await bodies.read(request))

    async def _delete_collection(self, request: Request, target: Target) -> Response:
        options = await query.delete_options(request)
        if target.served.resource == builtin.NAMESPACE or (target.served.namespaced and not target.namespace):
            raise errors.method_not_allowed()
        selector = query.selector(request, target.served)
        limit = query.integer(request, "limit") or None
        items: list[bytes] = []
        count, size, after, done = 0, 0, ("", ""), False
        while not done and count != limit:
            at_once = AT_ONCE if limit is None else min(limit - count, AT_ONCE)
            delete = functools.partial(self._delete_behind, target, selector, after, at_once, options)
            try:
                scan, deleted = await self._stored(delete)
            except sqlite3.OperationalError as error:
                status = errors.status_of(error, takes_deletions=self.objects.store.takes_deletions)
                told = f"{count} objects of the collection were deleted, the others were not: {status}"
                raise replace(status, message=told) from error
            for last, length in deleted:
                if (size := size + length) <= MAX_DELETED_BYTES:
                    items.append(msgspec.json.encode(last))
            count += len(deleted)
            after, done = scan.position, scan.done and not scan.more
            await _call(request).next_turn()
        if size > MAX_DELETED_BYTES:
            return json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
        served = target.served
        meta = {"continue": ""} if served.custom else {}
        meta["resourceVersion"] = str(self.objects.store.revision)
        head = msgspec.json.encode(
            {"kind": served.list_kind, "apiVersion": served.api_version, "metadata": meta}
        )
        return Response(head[:-1] + b',"items":[' + b",".join(items) + b"]}", media_type=bodies.JSON)

    def _delete_behind(
        self, target: Target, selector: Selector, after: Position, limit: int, options: DeleteOptions
    ) -> tuple[Scan, list[tuple[Object, int]]]:
        """Delete the next objects of a collection; returns them with their sizes."""
        scan = self._behind(target, selector, after, limit)
        deleted = []
        for stored in scan.part():
            one = replace(target, namespace=stored.key.namespace, name=stored.key.name)
            last, _ = self.objects.delete(one, options, dry_run=bool(options.dry_run))
            deleted.append((last, len(stored.body)))
        return scan, deleted

    async def _stored(self, delete: Callable[[], T]) -> T:
        """Delete, and wait until that is on disk.

        A deletion is repeated once if it shared its transaction with a write that failed for lack of space.
        """
        try:
            deleted = delete()
            await self.objects.store.settled()
        except sqlite3.OperationalError:
            deleted = delete()
            await self.objects.store.settled()
        return deleted

    def _behind(self, target: Target, selector: Selector, after: Position, limit: int) -> Scan:
        """The next objects of a collection at the current revision."""
        store, served = self.objects.store, target.served
        return Scan(
            store,
            self.hub,
            served,
            target.namespace,
            selector,
            revision=store.revision,
            after=after,
            limit=limit,
        )

    async def _write(
        self, request: Request, target: Target, verb: changes.Verb, options: WriteOptions, body: bytes
    ) -> Response:
        change = changes.Change(verb, bodies.media_type(request), body, options)
        answer = await self.writer.write(_call(request), target, change)
        code = 201 if answer.created else 200
        form = Form.of(request)
        if form.name == "Object" or target.subresource == "scale":
            response = Response(answer.body, code, media_type="application/json")
        else:
            response = json(form.one(target.served, msgspec.json.decode(answer.body), meta={}), code)
        for warning in answer.warnings[:20]:
            warn(response, warning)
        return response


def _call(request: Request) -> Call:
    call: Call = request.scope["call"]
    return call


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def warn(response: Response, warning: str) -> None:
    """Add a warning header, which kubectl prints. A warning may have any characters of the object."""
    text = warning.replace("\\", "\\\\").replace('"', '\\"').encode("ascii", "backslashreplace").decode()
    text = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
    response.headers.append("Warning", f'299 - "{text[:400]}"')


def _deleted(target: Target, obj: Object) -> Object:
    group = {"group": target.served.group} if target.served.group else {}
    details = {"name": target.name, **group, "kind": target.served.plural}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {**details, "uid": obj["metadata"]["uid"]},
    }
