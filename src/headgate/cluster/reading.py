"""What a server says of one kind, decoded: its objects, and the events of a watch."""

from __future__ import annotations

import logging
from typing import Generic

import msgspec

from headgate import api
from headgate.cluster.errors import ApiError, Status
from headgate.cluster.store import K

log = logging.getLogger(__name__)

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _Identity(msgspec.Struct, frozen=True):
    """What is read of an object that doesn't decode into its kind."""

    metadata: api.ObjectMeta


class _WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


_watch_event = msgspec.json.Decoder(_WatchEvent)


class Reader(Generic[K]):
    """Decodes objects of one kind, and knows those that do not decode into it."""

    def __init__(self, kind: type[K], path: str) -> None:
        self._kind = kind.resource.kind
        self._path = path
        self._decoder = msgspec.json.Decoder(kind)
        self.unreadable: dict[api.ObjectKey, str] = {}
        """Objects of the last list and since, with the error."""

    def object(self, raw: msgspec.Raw) -> K | None:
        """The object, or None after reporting why it is none of this kind."""
        try:
            return self._decoder.decode(raw)
        except _UNREADABLE as error:
            found = identity(raw)
            key = found.key if found else api.ObjectKey("", "(without metadata)")
            self.unreadable[key] = str(error)
            log.warning("%s %s is left out: %s", self._kind, key, error)
            return None

    def event(self, line: bytes) -> tuple[str, msgspec.Raw]:
        """Type and object of an event. Raises ApiError for a line that is none, and for an ERROR."""
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
