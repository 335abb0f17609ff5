"""What every way of handing a KV cache over has in common."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from typing import ClassVar

import msgspec

from headgate.engines.transfer.body import Body, Buffers


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
