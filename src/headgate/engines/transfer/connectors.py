"""The connectors: how each of them hands a KV cache over, and what the prefill's answer says for it."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from headgate.engines.responses import CachedTokens
from headgate.engines.transfer.body import ONE, Body, Buffers, first_byte, raw


class Meeting(msgspec.Struct, frozen=True):
    """Where the two endpoints of one attempt find each other, for connectors that need it."""

    host: str
    """Of the endpoint that prefills."""
    port: int
    """Its bootstrap port."""
    rooms: tuple[int, ...] = ()
    """A number for each sequence of the request, never used before."""


class Connector(ABC):
    """Makes two bodies of one. The class variables say what the gateway may do around that."""

    name: ClassVar[str]
    at_once: ClassVar[bool] = False
    """Whether both requests are sent together; otherwise the second waits for the answer to the first."""
    needs_answer: ClassVar[bool] = False
    """Whether the decode request needs what the prefill's answer says."""
    decodes_alone: ClassVar[bool] = True
    """Whether an endpoint that decodes can serve a whole request."""
    keeps_prefix: ClassVar[bool] = True
    """Whether the prompt's blocks are in the prefix cache of the endpoint that decoded it afterwards."""
    can_repeat: ClassVar[bool] = True
    """Whether what was prefilled can be fetched again, after an endpoint may have fetched it."""

    def why_not(self, body: Body) -> str:
        """Why the phases of a request cannot be apart, in a word; "" if they can."""
        if not body.api.limit:
            return "api"
        if body.has("prompt_logprobs") or (body.has("echo") and body.has("logprobs")):
            return "prompt_logprobs"  # only who prefills the prompt can tell them
        if body.has("background") or body.has("previous_response_id"):
            return "stateful"  # the engine that knows of it has to answer
        return ""

    def meeting(self, body: Body, host: str, port: int, rng: random.Random) -> Meeting:
        """Of a new attempt, whose prefill endpoint is at `host`; never used for two attempts."""
        return Meeting(host, port)

    @abstractmethod
    def prefill(self, body: Body, meeting: Meeting) -> bytes | Buffers:
        """What the endpoint that prefills is sent."""

    @abstractmethod
    def decode(self, body: Body, meeting: Meeting, handed_over: msgspec.Raw | None) -> bytes | Buffers:
        """What the endpoint that answers is sent, given what the other's answer said of the cache."""


class Http(Connector):
    """Two ordinary requests: the engines share a store, where the second finds what the first left."""

    name: ClassVar[str] = "http"

    def prefill(self, body: Body, meeting: Meeting) -> bytes | Buffers:
        return body.prefill()

    def decode(self, body: Body, meeting: Meeting, handed_over: msgspec.Raw | None) -> bytes | Buffers:
        return body.whole()


class LMCache(Http):
    """Its servers find blocks by their hashes."""

    name: ClassVar[str] = "lmcache"


_KEEP_BLOCKS = msgspec.Raw(
    b'{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,'
    b'"remote_host":null,"remote_port":null}'
)
"""Asks the engine to hold the blocks after its answer, which then says where they are."""


class Nixl(Connector):
    """vLLM's: who prefills says where its blocks are, and who decodes reads them from there.

    The blocks are freed once they were read: what may have been read is never pointed at again, since
    other blocks may be in their place by then.
    """

    name: ClassVar[str] = "nixl"
    needs_answer: ClassVar[bool] = True
    can_repeat: ClassVar[bool] = False

    def why_not(self, body: Body) -> str:
        """Several sequences would each read the blocks, and the first to be done frees them."""
        if why := super().why_not(body):
            return why
        if body.count("n") > 1 or body.count("best_of") > 1 or body.has("use_beam_search"):
            return "n"
        # The answer says where the blocks of one prompt are.
        return "prompts" if body.prompts() > 1 else ""

    def prefill(self, body: Body, meeting: Meeting) -> bytes | Buffers:
        return body.prefill(kv_transfer_params=_KEEP_BLOCKS)

    def decode(self, body: Body, meeting: Meeting, handed_over: msgspec.Raw | None) -> bytes | Buffers:
        return body.whole() if handed_over is None else body.with_members(kv_transfer_params=handed_over)


class Mooncake(Nixl):
    """Mooncake's transfer engine beneath vLLM: the requests are those of NIXL."""

    name: ClassVar[str] = "mooncake"


_MAX_ROOMS = 1024


class SGLangBootstrap(Connector):
    """Both servers get the request at once, and meet at the one that prefills. A room is one transfer: each
    sequence of a request has its own, and so has each attempt.

    The first token is sampled by the server that prefills and handed over with the cache: whatever decides
    how it is sampled (structured output, logprobs, n) is the same in both requests. The cache of the server
    that decodes has no prefixes, and it can prefill nothing itself.
    """

    name: ClassVar[str] = "sglang"
    at_once: ClassVar[bool] = True
    decodes_alone: ClassVar[bool] = False
    keeps_prefix: ClassVar[bool] = False
    can_repeat: ClassVar[bool] = False

    def why_not(self, body: Body) -> str:
        """Nobody else could serve it."""
        return ""

    def meeting(self, body: Body, host: str, port: int, rng: random.Random) -> Meeting:
        sequences = min(body.prompts() * body.count("n"), _MAX_ROOMS)
        return Meeting(host, port, tuple(rng.getrandbits(63) for _ in range(sequences)))

    def prefill(self, body: Body, meeting: Meeting) -> bytes | Buffers:
        limits: dict[str, object] = {**body.limits()}
        if limits and body.count("min_tokens") > 1:
            limits["min_tokens"] = ONE
        return body.without(("stream", "stream_options")).with_members(
            **limits, **_bootstrap_members(meeting)
        )

    def decode(self, body: Body, meeting: Meeting, handed_over: msgspec.Raw | None) -> bytes | Buffers:
        return body.with_members(**_bootstrap_members(meeting))


def _bootstrap_members(meeting: Meeting) -> dict[str, object]:
    """A list of each for several sequences, as one number would put them all into one room."""
    members: tuple[object, ...] = (meeting.host, meeting.port, meeting.rooms[0])
    if len(meeting.rooms) > 1:
        count = len(meeting.rooms)
        members = ([meeting.host] * count, [meeting.port] * count, meeting.rooms)
    names = ("bootstrap_host", "bootstrap_port", "bootstrap_room")
    return {name: raw(value) for name, value in zip(names, members, strict=True)}


class PrefillAnswer(msgspec.Struct, frozen=True):
    """Of the prefilling endpoint. `read_answer` raises msgspec.DecodeError or UnicodeDecodeError."""

    kv_transfer_params: msgspec.Raw = msgspec.Raw(b"null")
    usage: CachedTokens | None = None

    @property
    def handed_over(self) -> msgspec.Raw | None:
        """What the other endpoint needs to fetch the cache; None where nothing is said."""
        return self.kv_transfer_params if first_byte(self.kv_transfer_params) == b"{" else None

    @property
    def cached_tokens(self) -> int | None:
        """How much of the prompt the cache held; None where the engine does not say."""
        return self.usage.cached if self.usage is not None else None


read_answer = msgspec.json.Decoder(PrefillAnswer).decode
