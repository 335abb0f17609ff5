"""Reads large request bodies in short steps, or in steps that release Python's global lock.

A body up to `LARGE_BYTES` is decoded on the event loop, which takes one or two milliseconds at most. For a
larger one, only the positions of a few members are kept; they suffice to change and forward it without a
copy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from headgate.engines import transfer
from headgate.requests.bodies import forms, prompt, scan
from headgate.requests.bodies.fields import inspect, invalid_json, scanner, too_long, with_usage
from headgate.requests.bodies.members import EMPTY, Fields, Prompt
from headgate.requests.bodies.pieces import Buffer, Pieces
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.requests.client import Header

LARGE_BYTES = 256 * 1024
"""The longest body that is decoded on the event loop."""
MAX_MEMBER_BYTES = 64 * 1024
"""Limit for a member that is decoded: the model's name, options, limits. The prompt is not decoded."""

_DECODED = frozenset(
    {
        *("model", "stream", "stream_options", "cache_salt"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens"),
    }
)


class Body(msgspec.Struct, frozen=True):
    """What was read from a large body."""

    whole: bytes | bytearray
    fields: Fields | Refusal
    """Without the members of the prompt."""
    form: forms.Form | Refusal | None = None
    prompt: Prompt = EMPTY
    members: tuple[scan.Member, ...] = ()
    prompts: int = 1
    """The number of prompts of a request of the completions API."""
    more_bytes: int = 0
    """Of a form that is sent as it comes: what follows `whole`, which is its beginning."""

    def changed(self, model: str | None, *, asks_for_usage: bool) -> Change:
        """The body with another model name or with `stream_options.include_usage`, or unchanged."""
        values: dict[str, bytes] = {}
        if model is not None:
            values["model"] = json.dumps(model).encode()
        added = b""
        if asks_for_usage and isinstance(self.fields, Fields):
            given = bytes(self.fields.stream_options)
            options = with_usage(given) if given else b'{"include_usage":true}'
            if options is not None and given:
                values["stream_options"] = options
            elif options is not None:
                added = options
        return Change(self.whole, self.members, self.prompts, values, added)

    def with_form_model(self, model: str) -> Pieces:
        assert isinstance(self.form, forms.Form)
        view = memoryview(self.whole)
        return Pieces((view[: self.form.start], model.encode(), view[self.form.end :]))


class Change:
    """A JSON body with new values for some of its members, and with `added` as its `stream_options`.

    Lives as long as the request. The hashed copy of the prompt lives only as long as the `Body`.
    """

    def __init__(
        self,
        whole: bytes | bytearray,
        members: tuple[scan.Member, ...],
        prompts: int,
        values: Mapping[str, bytes],
        added: bytes,
    ) -> None:
        self._whole = whole
        self._members = members
        self._prompts = prompts
        self._values = values
        """Of repeated members, the last is changed, as it is the effective one."""
        self._added = added
        self.asks_for_usage = bool(added) or "stream_options" in values

    def pieces(self) -> Pieces:
        """The body to send."""
        view = memoryview(self._whole)
        last = {member.name: member for member in self._members if member.name in self._values}
        buffers: list[Buffer] = []
        at = 0
        for name, member in sorted(last.items(), key=lambda item: item[1].value):
            buffers += (view[at : member.value], self._values[name])
            at = member.end
        end = len(view)
        if self._added:
            end = self._whole.rindex(b"}")
        buffers.append(view[at:end])
        if self._added:
            buffers += (b',"stream_options":', self._added, b"}")
        return Pieces(buffers)

    def for_transfer(self, path: str, whole: Pieces) -> transfer.Body | None:
        """The body for the connectors: the members that they read, and the rest."""
        view = memoryview(self._whole)
        fields: dict[str, msgspec.Raw] = {}
        others: list[memoryview] = []
        at = self._whole.index(b"{") + 1
        for member in self._members:
            others.append(view[at : member.start])
            fields[member.name] = msgspec.Raw(view[member.value : member.end])
            at = member.behind
        fields |= {name: msgspec.Raw(value) for name, value in self._values.items()}
        if self._added:
            fields["stream_options"] = msgspec.Raw(self._added)
        others.append(view[at : self._whole.rindex(b"}")] if at < len(view) else view[at:])
        return transfer.large(path, whole.buffers, fields, tuple(others), self._prompts)


def read(headers: list[Header], body: bytes | bytearray, path: str) -> Body:
    """Read a body of any size. Runs in a thread; takes time linear in the body."""
    try:
        members = scanner.members(body)
    except scan.ScanError as error:
        refusal = invalid_json(str(error))
        return Body(body, refusal, forms.read(headers, body))
    fields = _fields(body, members)
    if not isinstance(fields, Fields):
        return Body(body, fields)
    places = {member.name: (member.value, member.end) for member in members}
    prompts = max((_prompts(body, places[name]) for name in transfer.PROMPTS if name in places), default=1)
    found = prompt.read_large(body, places, path)
    return Body(body, fields, None, found, tuple(members), prompts)


def _fields(body: bytes | bytearray, members: list[scan.Member]) -> Fields | Refusal:
    last = {member.name: member for member in members if member.name in _DECODED}
    for name, member in last.items():
        if member.end - member.value > MAX_MEMBER_BYTES:
            return too_long(name, f"{MAX_MEMBER_BYTES} bytes")
    values = [b'"%b":%b' % (name.encode(), bytes(body[each.value : each.end])) for name, each in last.items()]
    return inspect(b"{%b}" % b",".join(values))


def _prompts(body: bytes | bytearray, place: tuple[int, int]) -> int:
    start, _ = place
    if body[start : start + 1] != b"[":
        return 1
    first, _ = scan.first_item(body, start)
    if body[first : first + 1] not in (b'"', b"[", b"]"):
        return 1  # token ids of one prompt
    return max(scan.count_items(body, start, transfer.MAX_PROMPTS), 1)
