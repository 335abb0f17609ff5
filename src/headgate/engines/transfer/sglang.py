"""SGLang's bootstrap: both servers get the request at once, and meet at the one that prefills.

The first token is sampled by the server that prefills and handed over with the cache: whatever decides how it
is sampled (structured output, logprobs, n) is the same in both requests. The cache of the server that decodes
has no prefixes, and it can prefill nothing itself.
"""

from __future__ import annotations

import random
from typing import ClassVar

import msgspec

from headgate.engines.transfer.body import ONE, Body, Buffers, raw
from headgate.engines.transfer.connector import Connector, Meeting

_MAX_ROOMS = 1024


class SGLangBootstrap(Connector):
    """A room is one transfer: each sequence of a request has its own, and so has each attempt."""

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
        return body.without(("stream", "stream_options")).with_members(**limits, **_members(meeting))

    def decode(self, body: Body, meeting: Meeting, handed_over: msgspec.Raw | None) -> bytes | Buffers:
        return body.with_members(**_members(meeting))


def _members(meeting: Meeting) -> dict[str, object]:
    """A list of each for several sequences, as one number would put them all into one room."""
    members: tuple[object, ...] = (meeting.host, meeting.port, meeting.rooms[0])
    if len(meeting.rooms) > 1:
        count = len(meeting.rooms)
        members = ([meeting.host] * count, [meeting.port] * count, meeting.rooms)
    names = ("bootstrap_host", "bootstrap_port", "bootstrap_room")
    return {name: raw(value) for name, value in zip(names, members, strict=True)}
