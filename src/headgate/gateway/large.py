"""Reads large request bodies beside the event loop, so that none of them stalls other clients.

A body up to `LARGE_BYTES` is decoded where it arrives, which takes a millisecond or two at most. A larger one
is scanned in a thread, by calls that either release Python's global lock or end after a few milliseconds.
Whatever it looks like, the loop then handles a few places in it, and changes and forwards it without a copy.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from headgate.engines import transfer
from headgate.gateway import forms, prompt, scan
from headgate.gateway.inspect import Fields, inspect, invalid_json, scanner, too_long, with_usage
from headgate.gateway.pieces import Buffer, Pieces
from headgate.gateway.refusals import Refusal

if TYPE_CHECKING:
    from headgate.gateway.request import Header

log = logging.getLogger(__name__)

LARGE_BYTES = 256 * 1024
"""The longest body that is decoded on the event loop."""
MAX_MEMBER_BYTES = 64 * 1024
"""Of a member that is decoded: the model's name, options, limits. The prompt is not decoded."""
_SHORT_BYTES = 4 << 20
"""Bodies up to this size need not wait for longer ones: they have a thread of their own."""

_DECODED = frozenset(
    {
        *("model", "stream", "stream_options", "cache_salt"),
        *("max_tokens", "max_completion_tokens", "max_output_tokens"),
    }
)


class Body(msgspec.Struct, frozen=True):
    """What was read of a large body."""

    whole: bytes | bytearray
    fields: Fields | Refusal
    """Without the members of the prompt."""
    form: forms.Form | Refusal | None = None
    prompt: prompt.Prompt = prompt.EMPTY
    members: tuple[scan.Member, ...] = ()
    prompts: int = 1
    """How many prompts a request of the completions API has."""

    def changed(self, model: str | None, *, asks_for_usage: bool) -> Change:
        """The body with another model's name, or with `stream_options.include_usage`; or as it is."""
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
    """A JSON body with other values for some of its members, and with `stream_options` if that is `added`.

    It lives as long as the request. The copy of the prompt that is hashed does not: it ends with the `Body`.
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
        """Of repeated members the last is changed, which counts."""
        self._added = added
        self.asks_for_usage = bool(added) or "stream_options" in values

    def pieces(self) -> Pieces:
        """The body that is sent."""
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
        """The body for the connectors, by those of its members that they read."""
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
    """Reads a body of any size. Runs in a thread; takes time linear in the body."""
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
        return 1  # tokens of one prompt
    return max(scan.count_items(body, start, transfer.MAX_PROMPTS), 1)


class Reading:
    """A body being read for someone who may leave."""

    def __init__(self, then: Callable[[Body | None], None]) -> None:
        self._then: Callable[[Body | None], None] | None = then
        self.future: Future[Body] | None = None

    def cancel(self) -> None:
        self._then = None
        if self.future is not None:
            self.future.cancel()

    def done(self, body: Body | None) -> None:
        then, self._then, self.future = self._then, None, None
        if then is not None:
            then(body)


class Reader:
    """Reads large bodies in threads; of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._short = ThreadPoolExecutor(1, "large-body")
        self._long = ThreadPoolExecutor(1, "largest-body")
        self.count = 0

    def begin(
        self, headers: list[Header], body: bytes | bytearray, path: str, then: Callable[[Body | None], None]
    ) -> Reading:
        """Calls `then` on the loop with what was read, or with None if that failed."""
        self.count += 1
        reading = Reading(then)
        executor = self._short if len(body) <= _SHORT_BYTES else self._long
        future = reading.future = executor.submit(read, headers, body, path)
        future.add_done_callback(lambda future: self._tell(reading, future))
        return reading

    async def read(self, headers: list[Header], body: bytes | bytearray, path: str) -> Body:
        """The same for a caller that can wait."""
        executor = self._short if len(body) <= _SHORT_BYTES else self._long
        return await self._loop.run_in_executor(executor, read, headers, body, path)

    def _tell(self, reading: Reading, future: Future[Body]) -> None:
        """Called in the thread, or on the loop for a reading that was cancelled."""
        if future.cancelled():
            return
        body: Body | None = None
        if error := future.exception():
            log.error("a large request body could not be read", exc_info=error)
        else:
            body = future.result()
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(reading.done, body)

    def close(self) -> None:
        for executor in (self._short, self._long):
            executor.shutdown(wait=False, cancel_futures=True)
