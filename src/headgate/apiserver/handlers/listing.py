"""Lists: consistent pages of one revision, and errors for revisions that are too old."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
from starlette.responses import Response, StreamingResponse

from headgate.apiserver import errors
from headgate.apiserver.calls import Call
from headgate.apiserver.handlers.forms import Form
from headgate.apiserver.handlers.query import ListOptions
from headgate.apiserver.objects import Objects
from headgate.apiserver.registry import Served
from headgate.apiserver.selectors import Selector
from headgate.apiserver.snapshots import PART_BYTES, Position, Scan
from headgate.apiserver.targets import Target
from headgate.apiserver.watch import Hub

MAX_PAGE = 100_000
_START: Position = ("", "")
_NOW = 0
"""In a continue token: list the rest at the current revision."""

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


class _Token(msgspec.Struct, array_like=True, frozen=True):
    revision: int
    namespace: str
    name: str


class LongList(StreamingResponse):
    """A list that is read while it is sent."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        super().__init__(parts, media_type="application/json")


def answer(
    objects: Objects,
    hub: Hub,
    target: Target,
    selector: Selector,
    options: ListOptions,
    form: Form,
    call: Call,
) -> Response:
    """The requested page. A long one is read and sent in parts, so that it takes little memory."""
    served, store = target.served, objects.store
    revision, after = _moment(objects, hub, served.resource, options)
    limit = min(options.limit, MAX_PAGE) if options.limit else MAX_PAGE
    scan = Scan(store, hub, served, target.namespace, selector, revision=revision, after=after, limit=limit)
    page = _Page(scan, served, form, counts=not selector)
    first = form.items(served, scan.part())
    if scan.done:
        body = page.head + page.metadata() + page.between + first + b"]}"
        return Response(body, media_type="application/json")
    call.hold_response(PART_BYTES)
    return LongList(page.parts(first, call))


class _Page:
    """A list as JSON. Its metadata comes first, or last if it is only known then."""

    def __init__(self, scan: Scan, served: Served, form: Form, *, counts: bool) -> None:
        self._scan = scan
        self._served = served
        self._form = form
        self._counts = counts
        self.head = form.list_head(served)
        self.between = b',"%s":[' % form.items_name

    async def parts(self, first: bytes, call: Call) -> AsyncIterator[bytes]:
        """The whole list. Raises 410 if the event log has moved past its revision, and it cannot continue."""
        yield self.head + self.between + first
        separator = b"," if first else b""
        del first
        while not self._scan.done:
            await call.next_turn()
            if items := self._form.items(self._served, self._scan.part()):
                yield separator + items
                separator = b","
                del items
        yield b"]" + self.metadata() + b"}"

    def metadata(self) -> bytes:
        scan = self._scan
        meta: dict[str, object] = {"resourceVersion": str(scan.revision)}
        if scan.more:
            meta["continue"] = _encode(_Token(scan.revision, *scan.last))
            if self._counts:
                meta["remainingItemCount"] = scan.remaining()
        elif (
            self._served.custom and self._form.name == "Object"
        ):  # Kubernetes leaves it out for its own kinds only
            meta["continue"] = ""
        return b',"metadata":' + msgspec.json.encode(meta)


def _moment(objects: Objects, hub: Hub, resource: str, options: ListOptions) -> tuple[int, Position]:
    """The revision of the list, and the position after which it begins."""
    now = objects.store.revision
    if options.continue_:
        token = _decode(options.continue_)
        position = (token.namespace, token.name)
        if token.revision == _NOW:
            return now, position
        _check_reached(token.revision, now)
        try:
            hub.after(resource, token.revision)
        except errors.StatusError as error:
            rest = _encode(msgspec.structs.replace(token, revision=_NOW))
            raise replace(error, message=_TOO_OLD, continue_=rest) from error
        return token.revision, position
    if options.revision:
        _check_reached(options.revision, now)
    if not options.exact or not options.revision:
        return now, _START
    try:
        hub.after(resource, options.revision)
    except errors.StatusError as error:
        raise errors.expired("The resourceVersion for the provided list is too old.") from error
    return options.revision, _START


def _check_reached(revision: int, now: int) -> None:
    if revision > now:
        raise errors.too_large_revision(revision, now)


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode()


def _decode(text: str) -> _Token:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text), type=_Token)
    except (ValueError, msgspec.DecodeError) as error:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
