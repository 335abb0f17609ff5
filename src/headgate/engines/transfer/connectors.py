"""The connectors: how each hands over a KV cache, and what the prefill response contains for it."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from headgate.engines.responses import CachedTokens
from headgate.engines.transfer.body import ONE, Body, Buffers, first_byte, raw


class Meeting(msgspec.Struct, frozen=True):
    """Where the two endpoints of one attempt meet, for connectors that need it."""

    host: str
    """The host of the prefill endpoint."""
    port: int
    """Its bootstrap port."""
    rooms: tuple[int, ...] = ()
    """A unique number for each sequence of the request."""


class Connector(ABC):
    """Makes two bodies of one. The class variables describe what the gateway may do."""

    name: ClassVar[str]
    at_once: ClassVar[bool] = False
    """Whether both requests are sent together; otherwise the second waits for the response to the first."""
    needs_response: ClassVar[bool] = False
    """Whether the decode request needs data from the prefill response."""
    decodes_alone: ClassVar[bool] = True
    """Whether a decode endpoint can serve a whole request."""
    keeps_prefix: ClassVar[bool] = True
    """Whether the prompt's blocks are in the prefix cache of the decode endpoint afterwards."""
    can_repeat: ClassVar[bool] = True
    """Whether the prefilled cache can be fetched again, after an endpoint may have fetched it."""

    def why_not(self, body: Body) -> str:
        """Why a request cannot be disaggregated, in a word; "" if it can."""
        if not body.api.limit:
            return "api"
        if body.has("prompt_logprobs") or (body.has("echo") and body.has("logprobs")):
            return "prompt_logprobs"  # only the prefill endpoint has them
        if body.has("background") or body.has("previous_response_id"):
            return "stateful"  # the engine with the state has to respond
        return ""

    def meeting(self, body: Body, host: str, port: int, rng: random.Random) -> Meeting:
        """The meeting of a new attempt, whose prefill endpoint is at `host`; never reused."""
        return Meeting(host, port)

    @abstractmethod
    def prefill(self, body: Body, meeting: Meeting) -> bytes | Buffers:
        """The request for the prefill endpoint."""

    @abstractmethod
    def decode(self, body: Body, meeting: Meeting, handed_over: msgspec.Raw | None) -> bytes | Buffers:
        """The request for the decode endpoint, given the handover data of the prefill response."""


class Http(Connector):
    """Two ordinary requests: the engines share a store, where the second finds the cache of the first."""

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
"""Asks the engine to keep the blocks after its response, which then says where they are."""


class Nixl(Connector):
    """vLLM's connector: the prefill response says where its blocks are, and the decode endpoint reads them
    from there.

    The blocks are freed after they were read: a location that may have been read is never used again, because
    other blocks may be there by then.
    """

    name: ClassVar[str] = "nixl"
    needs_response: ClassVar[bool] = True
    can_repeat: ClassVar[bool] = False

    def why_not(self, body: Body) -> str:
        """With several sequences, each would read the blocks, and the first to finish would free them."""
        if why := super().why_not(body):
            return why
        if body.count("n") > 1 or body.count("best_of") > 1 or body.has("use_beam_search"):
            return "n"
        # The response has the location of one prompt's blocks.
        return "prompts" if body.prompts() > 1 else ""

    def prefill(self, body: Body, meeting: Meeting) -> bytes | Buffers:
        return body.prefill(kv_transfer_params=_KEEP_BLOCKS)

    def decode(self, body: Body, meeting: Meeting, handed_over: msgspec.Raw | None) -> bytes | Buffers:
        return body.whole() if handed_over is None else body.with_members(kv_transfer_params=handed_over)


class Mooncake(Nixl):
    """vLLM with Mooncake's transfer engine: the same requests as NIXL."""

    name: ClassVar[str] = "mooncake"


_MAX_ROOMS = 1024


class SGLangBootstrap(Connector):
    """Both servers get the request at once, and meet at the prefill server. A room is one transfer: each
    sequence of a request has its own, and so has each attempt.

    The prefill server samples the first token and hands it over with the cache: everything that affects
    sampling (structured output, logprobs, n) is the same in both requests. The decode server has no prefix
    cache, and cannot prefill.
    """

    name: ClassVar[str] = "sglang"
    at_once: ClassVar[bool] = True
    decodes_alone: ClassVar[bool] = False
    keeps_prefix: ClassVar[bool] = False
    can_repeat: ClassVar[bool] = False

    def why_not(self, body: Body) -> str:
        """Always empty: no endpoint could serve the request alone."""
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
    """The members by which the two servers meet; lists for several sequences, because one number would put
    them all into one room."""
    members: tuple[object, ...] = (meeting.host, meeting.port, meeting.rooms[0])
    if len(meeting.rooms) > 1:
        count = len(meeting.rooms)
        members = ([meeting.host] * count, [meeting.port] * count, meeting.rooms)
    names = ("bootstrap_host", "bootstrap_port", "bootstrap_room")
    return {name: raw(value) for name, value in zip(names, members, strict=True)}


class PrefillResponse(msgspec.Struct, frozen=True):
    """The prefill endpoint's response. `read_response` raises msgspec.DecodeError or UnicodeDecodeError."""

    kv_transfer_params: msgspec.Raw = msgspec.Raw(b"null")
    usage: CachedTokens | None = None

    @property
    def handed_over(self) -> msgspec.Raw | None:
        """What the decode endpoint needs to fetch the cache; None if the response has nothing."""
        return self.kv_transfer_params if first_byte(self.kv_transfer_params) == b"{" else None

    @property
    def cached_tokens(self) -> int | None:
        """Tokens of the prompt that were in the cache; None if the engine does not report them."""
        return self.usage.cached if self.usage is not None else None


read_response = msgspec.json.Decoder(PrefillResponse).decode
