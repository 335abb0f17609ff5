"""The body of a response as it passes: the client's name of the model, and what it did not ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headgate.dataplane.rewriting.events import EventStream
from headgate.dataplane.rewriting.names import NameSplice

if TYPE_CHECKING:
    from headgate.requests.client import Header
    from headgate.requests.decision import Decision

_EVENTS: Final = b"text/event-stream"
_JSON: Final = b"application/json"
_OK: Final = 200


class ResponseBody:
    """One response. `feed` returns what the client gets instead of these bytes.

    With `holds`, the last bytes of a JSON document are held until it is known whether more follow: proxies
    often send an empty part in the end, which so costs no message of its own.
    """

    __slots__ = ("_change", "_held", "_holds", "is_changed")

    def __init__(self, status: int, headers: list[Header], decision: Decision, *, holds: bool) -> None:
        named = dict(headers)
        kind = named.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if named.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
            kind = b""
        self._change: EventStream | NameSplice | None = None
        self._holds = holds and kind == _JSON
        self._held = b""
        name, takes_usage = decision.client_name, decision.usage_unasked
        if kind == _EVENTS and status == _OK and (name or takes_usage):
            self._change = EventStream(is_chunked=False, takes_usage=takes_usage, name=name)
        elif kind == _JSON and name:
            self._change = NameSplice(name, nested=False)
        self.is_changed = self._change is not None
        """Whether the body may differ from the endpoint's, also in its length."""

    @property
    def taken_bytes(self) -> int:
        """Bytes removed from the body so far."""
        change = self._change
        if change is None:
            return 0
        return change.taken_bytes if isinstance(change, EventStream) else -change.growth

    def feed(self, data: bytes, *, is_end: bool) -> bytes:
        """The bytes to send now; after the end, nothing is held."""
        if self._change is not None:
            data = self._change.feed(data)
            if is_end:
                data += self._change.flush()
        if not self._holds:
            return data
        if is_end:
            data, self._held = self._held + data, b""
        elif data:
            data, self._held = self._held, data
        return data

    def cut_off(self, event: bytes) -> bytes | None:
        """The end of a broken stream, with this event; None if that is not possible."""
        return self._change.cut_off(event) if isinstance(self._change, EventStream) else None
