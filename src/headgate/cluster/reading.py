"""Decodes the objects and watch events of one kind."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic

import msgspec

from headgate import api
from headgate.cluster.errors import ApiError, Status
from headgate.cluster.store import K

log = logging.getLogger(__name__)

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Identity(msgspec.Struct, frozen=True):
    """The part that is read of an object that does not decode into its kind."""

    metadata: api.ObjectMeta


class _WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_watch_event = msgspec.json.Decoder(_WatchEvent)


class Reader(Generic[K]):
    """Decodes objects of one kind, and keeps track of those that do not decode."""

    def __init__(self, kind: type[K], path: str, reduced: Callable[[K], K] | None = None) -> None:
        """`reduced` returns the part of an object that is kept."""
        self._reduced = reduced
        self._kind = kind.resource.kind
        self._path = path
        self._decoder = msgspec.json.Decoder(kind)
        self.unreadable: dict[api.ObjectKey, str] = {}
        """Unreadable objects since the last list, with the error."""

    def object(self, raw: msgspec.Raw) -> K | None:
        """The object; None, with a warning, if it does not decode."""
        try:
            obj = self._decoder.decode(raw)
        except _UNREADABLE as error:
            found = identity(raw)
            key = found.key if found else api.ObjectKey("", "(without metadata)")
            self.unreadable[key] = str(error)
            log.warning("%s %s is left out: %s", self._kind, key, error)
            return None
        return obj if self._reduced is None else self._reduced(obj)

    def event(self, line: bytes) -> tuple[str, msgspec.Raw]:
        """Type and object of an event. Raises ApiError for an invalid line, and for an ERROR."""
        try:
            event = _watch_event.decode(line)
        except _UNREADABLE as error:
            raise ApiError(f"not a watch event: {error}", request=f"WATCH {self._path}") from error
        if event.type == "ERROR":
            raise self._error(event.object)
        return event.type, event.object

    def _error(self, raw: msgspec.Raw) -> ApiError:
        try:
            status = msgspec.json.decode(raw, type=Status)
        except _UNREADABLE:
            status = Status(message="the server ended the watch with an error that is no Status")
        return ApiError.from_status(status, request=f"WATCH {self._path}")


def identity(raw: msgspec.Raw) -> api.ObjectMeta | None:
    """The metadata of an object, whether or not the rest of it decodes."""
    try:
        return msgspec.json.decode(raw, type=_Identity).metadata
    except _UNREADABLE:
        return None
