"""The part of a request in a KV transfer: three hooks, which do nothing for most requests."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import xxhash

from headgate.simulator.model import Tokens
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.kv_fields import Bootstrap, NixlParams


class Computed(msgspec.Struct, frozen=True):
    """A prompt whose KV cache is ready on an engine."""

    digest: str
    tokens: int


class Transfer:
    """A request whose KV cache stays where it is computed."""

    waits = False
    """Whether it must wait before the engine gets the request."""

    keeps_kv = False
    """Whether the engine keeps its blocks for another one."""

    async def arrive(self) -> tuple[int, ...]:
        """Before the engine gets the request: tokens of each prompt whose KV cache arrives from elsewhere."""
        return ()

    def computed(self, answer_id: str, release: Callable[[], None]) -> dict[str, Any] | None:
        """The engine is done: `kv_transfer_params` of the response. `release` frees kept blocks."""
        return None

    def close(self) -> None:
        """The request is over, however it ended."""


def digest_of(prompt: Tokens) -> str:
    """A digest of a prompt's content, so that the wrong cache is not mistaken for the right one."""
    return xxhash.xxh3_64_hexdigest(prompt.tobytes())


# Deviations of requests from the protocol of their connector: always counted, rejected if enabled.
KEPT = 100
"""Deviations whose messages are kept."""


class Deviation(NamedTuple):
    """One thing that a gateway should have done differently."""

    check: str
    """A short name for counting."""
    param: str | None
    """The invalid field."""
    message: str


class Protocol:
    """Observed prefill/decode traffic. `statistics` is what /admin/protocol shows."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.seen: Counter[str] = Counter()
        self.deviations: Counter[str] = Counter()
        self._last: deque[Deviation] = deque(maxlen=KEPT)

    def saw(self, what: str) -> None:
        self.seen[what] += 1

    def found(self, deviations: list[Deviation]) -> None:
        """Count deviations; if the protocol is enforced, raise a 400 that names all of them."""
        for deviation in deviations:
            self.deviations[deviation.check] += 1
            self._last.append(deviation)
        if deviations and self.strict:
            told = "; ".join(deviation.message for deviation in deviations)
            raise ApiError(400, f"Against the protocol: {told}", param=deviations[0].param)

    def statistics(self) -> dict[str, object]:
        return {
            "strict": self.strict,
            "seen": dict(self.seen),
            "deviations": dict(self.deviations),
            "last": [deviation._asdict() for deviation in self._last],
        }


# The rules of the prefill/decode protocols, each from fields of a request to deviations.
def prefill_shape(generation: Generation) -> list[Deviation]:
    """A prefill-only request generates one token of one sequence, without streaming.

    Does not apply to SGLang: its router sends both sides the same body, and its engine stops by itself.
    """
    found = []
    if generation.stream:
        found.append(Deviation("prefill_streams", "stream", "stream: a prefill request must not stream"))
    if generation.max_tokens != 1:
        message = f"max_tokens: a prefill request must ask for 1 token, not {generation.max_tokens or 'any'}"
        found.append(Deviation("prefill_max_tokens", "max_tokens", message))
    if generation.sequences > 1:
        message = f"n: a prefill request must have one sequence, not {generation.sequences}"
        found.append(Deviation("prefill_n", "n", message))
    return found


def prefill_params(params: NixlParams) -> list[Deviation]:
    """A prefill request does not name the remote side; the engine does so in its response."""
    found = []
    if params.do_remote_prefill:
        field = "kv_transfer_params.do_remote_prefill"
        found.append(Deviation("both_sides", field, f"{field}: must be false where do_remote_decode is true"))
    if given := params.given():
        field = f"kv_transfer_params.{given[0]}"
        message = f"{field}: a prefill request must not have {', '.join(given)}"
        found.append(Deviation("prefill_remote_fields", field, message))
    return found


def decode_params(params: NixlParams) -> list[Deviation]:
    """A decode request has all fields of the prefill response."""
    if absent := params.absent():
        field = f"kv_transfer_params.{absent[0]}"
        message = f"{field}: a decode request needs {', '.join(absent)} from the prefill's answer"
        return [Deviation("decode_lacks_params", field, message)]
    return []


def role(own: str, side: str) -> list[Deviation]:
    """An engine with a role only gets requests of that side."""
    if own in ("both", side):
        return []
    return [Deviation("wrong_role", None, f"this engine is for {own}, and this is the {side} request")]


def rooms(bootstrap: Bootstrap, used: list[int]) -> list[Deviation]:
    """As many rooms as sequences, each used once."""
    found = [
        Deviation("bootstrap_misfit", name, f"{name}: is longer than the request has sequences")
        for name in bootstrap.misfits
    ]
    if used:
        message = f"bootstrap_room: was used before: {', '.join(map(str, used))}"
        found.append(Deviation("room_reused", "bootstrap_room", message))
    return found
