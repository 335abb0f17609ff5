"""Decides about WebSocket sessions, such as those of the realtime API, and counts the tokens in them.

A session is one request without a body: its model is in the query, and it is in flight until either side ends
it. Nothing is learned from it about the responses of its pool, as a session consists of many of them, and of
the time in which its user thinks.
"""

from __future__ import annotations

import urllib.parse
from typing import TYPE_CHECKING, Final

from headgate import scheduling
from headgate.requests.bodies.fields import MAX_NAME_CHARACTERS, too_long
from headgate.requests.deciding.pools import adapter_of, find_pool, forbidden
from headgate.requests.deciding.priorities import priority_of
from headgate.requests.decision import Decision
from headgate.requests.destinations import Destination
from headgate.requests.received import ReceivedBody
from headgate.requests.refusal import Refusal
from headgate.requests.reported import Usage, read
from headgate.requests.usage import KEEP_BYTES, USAGE_KEY, Tail, counts, is_possible, object_at

if TYPE_CHECKING:
    from headgate.requests.client import ClientRequest
    from headgate.requests.deciding.surroundings import Surroundings
    from headgate.requests.proxied import Proxied

MAX_PARAMETERS: Final = 64
_SPACE: Final = b" \t\r\n"
_PIECE: Final = b'.delta"'
"""The end of the types of all events that have a piece of a response."""


def decide(
    known: Surroundings, request: ClientRequest, query: str, proxied: Proxied | None = None
) -> Decision:
    """Find the pool of a session. What it is sent to is up to a proxy, if there is one."""
    decision = Decision()
    model = model_of(query)
    if isinstance(model, Refusal):
        decision.refusal = model
        return decision
    decision.model = model
    decision.refusal = forbidden(decision, request) or find_pool(decision, known, request, proxied)
    pool, match, target = decision.pool, decision.match, decision.target
    if decision.refusal is not None or pool is None or match is None or target is None:
        return decision
    if pool.pool.http2 and proxied is None:
        decision.refusal = Refusal.bad_request(
            f"the endpoints of the model {model[:256]!r} use HTTP/2, over which WebSockets are not supported",
            code="websocket_unsupported",
            status=501,
        )
        return decision
    upstream_model, destination = decision.upstream_model, Destination(match, target, pool)
    decision.scheduled = scheduling.Request(
        model=upstream_model,
        prompt_tokens=0,
        adapter=adapter_of(decision, destination),
        output_tokens=known.sizes.answers.expected(upstream_model, None),
        priority=priority_of(known, destination, request),
        header=request.header,
    )
    return decision


def model_of(query: str) -> str | Refusal:
    """The model named in the query of a target, or why there is none."""
    if query.count("&") >= MAX_PARAMETERS:  # in what is not looked at, an engine might find another model
        return Refusal.bad_request(
            f"the query has more than {MAX_PARAMETERS} parameters: send fewer", code="too_many_parameters"
        )
    named = [value for name, value in _parameters(query) if name == "model"]
    if len(named) > 1:
        return Refusal.bad_request(
            "the query names the model twice: name one", param="model", code="invalid_type"
        )
    if not named or not named[0].strip():
        return Refusal.bad_request(
            "the request has no model: add ?model= with one of those that GET /v1/models lists to its URL",
            param="model",
            code="model_missing",
        )
    if len(named[0]) > MAX_NAME_CHARACTERS:
        return too_long("model", f"{MAX_NAME_CHARACTERS} characters")
    return named[0]


def with_model(query: str, model: str) -> str:
    """The query with another value for its model; every other byte stays."""
    pairs = query.split("&")
    for index, pair in enumerate(pairs):
        name, _, _ = pair.partition("=")
        if urllib.parse.unquote_plus(name) == "model":
            pairs[index] = f"{name}={urllib.parse.quote(model, safe='')}"
    return "&".join(pairs)


def _parameters(query: str) -> list[tuple[str, str]]:
    pairs = [pair.partition("=") for pair in query.split("&")]
    return [(urllib.parse.unquote_plus(name), urllib.parse.unquote_plus(value)) for name, _, value in pairs]


class SessionTail(Tail):
    """Adds up the counts of all responses in a session."""

    __slots__ = ("_cut", "_total", "uncounted")

    def __init__(self) -> None:
        super().__init__()
        self._cut = b""
        """The end of the data, if a count may have begun there."""
        self._total: Usage | None = None
        self.uncounted = 0
        """Pieces of responses since the last count, such as `response.output_text.delta`: engines send each
        token in one."""

    def add(self, data: bytes) -> None:
        text = self._cut + data if self._cut else data
        # Where a piece begins that ends in `data`; those before were seen.
        seen = max(len(self._cut) - len(_PIECE) + 1, 0)
        uncounted = self.uncounted
        self._cut = b""
        at = text.find(USAGE_KEY)
        while at >= 0:
            start = at + len(USAGE_KEY)
            value = object_at(text, start)
            if value:
                if self._count(value):
                    seen, uncounted = start, 0
            elif _may_continue(text, start):
                self._cut = text[at:]
                break
            at = text.find(USAGE_KEY, start)
        if not self._cut:
            self._cut = text[-len(USAGE_KEY) + 1 :]
        self.uncounted = uncounted + text.count(_PIECE, seen)
        super().add(data)

    def _count(self, value: bytes) -> bool:
        """Whether it is a valid count."""
        reported = read(value)
        if reported is None:
            return False
        usage, before = counts(reported), self._total
        if not is_possible(usage, 0, 0):
            return False
        if before is not None:
            cached = before.cached if usage.cached is None else usage.cached + (before.cached or 0)
            usage = Usage(before.prompt + usage.prompt, before.completion + usage.completion, cached)
        self._total = usage
        return True

    def usage(self) -> Usage | None:
        return self._total


def _may_continue(text: bytes, start: int) -> bool:
    """Whether the object that should begin at `start` is cut off, rather than missing."""
    if len(text) - start > KEEP_BYTES:
        return False
    rest = text[start:].lstrip(_SPACE)
    return not rest or rest.startswith(b"{")


class SessionBody(ReceivedBody):
    """What an endpoint sends in a session."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.tail = self._responses = SessionTail()
        """The same, by the type that counts pieces: mypyc lets no subclass narrow a member."""

    def forget(self, path: str) -> None:
        super().forget(path)
        self.tail = self._responses = SessionTail()

    @property
    def is_one_response(self) -> bool:
        return False

    def usage(self, request_bytes: int) -> Usage | None:
        """Those of each response were checked as they came."""
        return self.tail.usage()

    def tokens(self, expected: int, counted: Usage | None, *, is_stream: bool) -> int:
        """Of all its responses, and what was sent of the one that its end cuts off."""
        return (counted.completion if counted is not None else 0) + self._responses.uncounted

    def is_hollow(self, path: str, counted: Usage | None, *, is_stream: bool) -> bool:
        return False
