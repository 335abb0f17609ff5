"""A repeated head is compared instead of parsed, with the same result."""

import asyncio
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.dataplane.records.recorder import Recorder
from headgate.dataplane.trust import Peer
from headgate.gateway import GatewaySettings
from headgate.gateway.policy import ClientPolicy
from headgate.gateway.reader import RequestReader
from headgate.gateway.request_head_cache import MAX_MISSES, RequestHeadCache
from headgate.gateway.services import Services
from headgate.telemetry import Registry

SETTINGS = GatewaySettings().replace(clients_max_body_bytes=1024)
POLICY = ClientPolicy(SETTINGS)
LOOP = asyncio.new_event_loop()
LOOP.close()

HEAD = (
    b"POST /v1/chat/completions?x=%d HTTP/1.1\r\nHost: gateway\r\n%bContent-Length: %b\r\n"
    b"X-Request-Id: r\r\nAccept: */*\r\n%b\r\n"
)
LENGTHS = {
    "right": b"%d",
    "with a sign": b"+%d",
    "with a zero": b"0%d",
    "with a space": b"%d ",
    "hexadecimal": b"%x",
    "twice": b"%d\r\nContent-Length: 7",
    "as a list": b"%d, 7",
    "digits of another script": "\u0661%d".encode(),
}
LINES = (
    b"",
    b"",
    b"X-Other: 1\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"Bad Name: 1\r\n",
)
DIFFERENCES = ("", "", "length", "count", "lines", "target", "end")


class _Reader:
    """A reader, and what it made of the bytes."""

    def __init__(self, memory: RequestHeadCache | None = None) -> None:
        self.made: list[object] = []
        self.refused: list[object] = []
        clock = itertools.count(1)
        services = Services(SETTINGS, Recorder(Registry(), None), LOOP, random.Random(0))
        services.policy = POLICY
        services.now = lambda: float(next(clock))
        self._reader = RequestReader(services, self, Peer("127.0.0.1", POLICY.trusted))
        if memory is not None:
            self._reader._heads = memory

    def take(self, request):
        message = request.message(request.body, b"id")
        self.made.append(
            [
                *(request.method, request.target, request.path, request.headers, request.body, message),
                *(request.keep_alive, request.is_http_1_0, request.given_id, request.response_lines),
            ]
        )

    def may_continue(self):
        self.made.append("100 Continue")
        self._reader.owes_continue = False

    def feed(self, pieces, *, as_long=False):
        """`as_long` is as the listener has it of long reads: requests are begun, and the rest is fed."""
        for piece in pieces:
            read, refusal = self._reader.begin(piece) if as_long else (0, None)
            if refusal is None and read < len(piece):
                refusal = self._reader.feed(piece[read:])
            if refusal is not None:
                self.refused.append((refusal.status, refusal.code, len(self.made)))
                return self
        self.refused.append(self._reader.is_amid_request)
        return self


def _forgetful() -> RequestHeadCache:
    """Learns no head."""
    heads = RequestHeadCache()
    heads._misses = MAX_MISSES
    return heads


@st.composite
def conversations(draw) -> list[bytes]:
    """What one client sends: requests with one head, but for the length and sometimes one other thing."""
    usual = draw(st.sampled_from(LINES)), draw(st.sampled_from(LINES))
    sent = []
    for other in draw(st.lists(st.sampled_from(DIFFERENCES), max_size=8)):
        body = b"b" * draw(st.sampled_from([1, 9, 10, 1024] if other else [0, 1, 9, 10, 100, 1025]))
        form = LENGTHS[draw(st.sampled_from(sorted(LENGTHS))) if other == "length" else "right"]
        said = form % (len(body) + (draw(st.sampled_from([1, -1])) if other == "count" else 0))
        before, after = (draw(st.sampled_from(LINES)) for _ in usual) if other == "lines" else usual
        whole = HEAD % (1 + (other == "target"), before, said, after) + body
        sent.append(whole + (draw(st.sampled_from([b"\r\n", b"GET", whole])) if other == "end" else b""))
    return sent


@given(conversations(), st.data())
@settings(max_examples=80, deadline=None)
def test_requests_and_refusals_are_the_same_without_a_memory(sent, data):
    """Whatever a client sends after what, and wherever the network cuts it."""
    pieces = []
    for message in sent:
        cut = data.draw(st.integers(0, len(message))) if data.draw(st.integers(0, 9)) == 9 else 0
        pieces += [piece for piece in (message[:cut], message[cut:]) if piece]
    without = _Reader(_forgetful()).feed(pieces)
    for other in (
        _Reader().feed(pieces),
        _Reader().feed(pieces, as_long=True),
        _Reader(_forgetful()).feed(pieces, as_long=True),
    ):
        assert other.made == without.made
        assert other.refused == without.refused


def test_the_second_request_is_not_parsed_again():
    """The head of a request is known from then on, whatever the length of the next body."""
    reader = _Reader().feed([HEAD % (1, b"", b"1", b"") + b"b"])
    heads = reader._reader._heads
    assert heads.recall(HEAD % (1, b"", b"12", b"") + b"b" * 12, 1024) is not None
    assert heads.recall(HEAD % (1, b"", b"12", b"") + b"b" * 11, 1024) is None
    assert heads.recall(HEAD % (1, b"", b"12", b"") + b"b" * 12, 11) is None
    assert heads.recall(HEAD % (2, b"", b"12", b"") + b"b" * 12, 1024) is None


@pytest.mark.counts_calls
def test_a_long_request_is_known_and_its_body_is_one_piece(monkeypatch):
    """Its head alone is parsed, and that once."""
    parse, fed = RequestReader._parse, []

    def parsed(reader, data):
        fed.append(data)
        return parse(reader, data)

    monkeypatch.setattr(RequestReader, "_parse", parsed)
    reader = _Reader()
    head, body = HEAD % (1, b"", b"1000", b""), b"b" * 1000
    reader.feed([head + body, head + body], as_long=True)
    assert fed == [head, body]
    assert [request[4] for request in reader.made] == [body, body]


def test_new_settings_are_checked_anew():
    """A head that was allowed is parsed and checked again once the settings change."""
    reader = _Reader().feed([HEAD % (1, b"", b"1", b"") + b"b"])
    settings = GatewaySettings().replace(clients_allowed_hosts=("elsewhere",))
    reader._reader.change(settings, ClientPolicy(settings))
    reader.feed([HEAD % (1, b"", b"1", b"") + b"b"])
    assert len(reader.made) == 1
    assert reader.refused[-1][:2] == (421, "unknown_host")


def test_a_connection_of_many_clients_is_not_learned_any_more():
    """Where each head is another, nothing is kept after a while."""
    reader = _Reader()
    for number in range(MAX_MISSES + 1):
        reader.feed([HEAD % (number, b"", b"1", b"") + b"b"])
    known = HEAD % (MAX_MISSES - 1, b"", b"1", b"") + b"b"
    assert reader._reader._heads.recall(known, 1024) is not None
    assert reader._reader._heads.recall(known.replace(b"x=7", b"x=8"), 1024) is None
