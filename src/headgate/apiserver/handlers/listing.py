"""Lists: pages of one moment, and what is said to a client whose moment is too far back."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace

import msgspec
from starlette.responses import Response

from headgate.apiserver import errors
from headgate.apiserver.handlers.forms import Form
from headgate.apiserver.handlers.query import ListOptions
from headgate.apiserver.objects import Objects
from headgate.apiserver.selectors import Selector
from headgate.apiserver.snapshots import Position, Snapshot
from headgate.apiserver.storage import Stored
from headgate.apiserver.targets import Target
from headgate.apiserver.watch import Hub

MAX_PAGE = 100_000
_START: Position = ("", "")
_NOW = 0
"""The revision of a token for the rest of a list as it is when it is asked for."""

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


def answer(
    objects: Objects, hub: Hub, target: Target, selector: Selector, options: ListOptions, form: Form
) -> Response:
    """The page that was asked for."""
    served, store = target.served, objects.store
    revision, after = _moment(objects, hub, served.resource, options)
    limit = min(options.limit, MAX_PAGE) if options.limit else MAX_PAGE
    snapshot = None
    if revision == store.revision:
        candidates: Iterator[Stored] = objects.select(served, target.namespace, selector, after)
    else:
        store.flush()  # so that the log has every write that the store has
        later = hub.after(served.resource, revision)
        snapshot = Snapshot(store, served.resource, target.namespace, later)
        candidates = snapshot.select(selector, after)
    page: list[Stored] = []
    more = False
    for stored in candidates:
        if len(page) == limit:
            more = True
            break
        page.append(stored)
    meta: dict[str, object] = {"resourceVersion": str(revision)}
    if more:
        last = (page[-1].key.namespace, page[-1].key.name)
        meta["continue"] = _encode(_Token(revision, *last))
        if not selector:
            counted = (
                snapshot.count(last) if snapshot else store.count(served.resource, target.namespace, last)
            )
            meta["remainingItemCount"] = counted
    return Response(form.page(served, page, meta), media_type="application/json")


def _moment(objects: Objects, hub: Hub, resource: str, options: ListOptions) -> tuple[int, Position]:
    """The revision that the list is of, and the position that it begins behind."""
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
        raise errors.bad_request(f"continue key is not valid: {error}") from error
