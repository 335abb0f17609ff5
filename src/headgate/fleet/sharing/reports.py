"""The report of one member, and its encoding.

Numbers are absolute, so that a lost report does no harm once the next one arrives. Times are seconds before
the report was made, because the clocks of two machines differ.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

MAX_ENDPOINTS = 10_000
"""In one report, and of one member."""
MAX_PROMPTS = 5_000
"""In one report."""
MAX_PREFIX_BYTES = 64 * 1024
"""Hashes of one prompt: an index divides the longest prompts into some hundred blocks of 8 bytes."""
_MAX = 2**53

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_MAX)]
Place: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MAX_ENDPOINTS)]
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=512)]


class Address(msgspec.Struct, frozen=True, array_like=True):
    """An endpoint, as in snapshots."""

    name: Name
    host: Name
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)]


class Load(msgspec.Struct, frozen=True, array_like=True):
    """A member's own work on one endpoint. All is 0 once it has none."""

    endpoint: Place
    """Its place in the report's list."""
    requests: Count = 0
    decoding: Count = 0
    """Requests past their prefill, and all whose response is not streamed."""
    begun: Count = 0
    """Requests whose first token was seen."""
    prefill_tokens: Count = 0
    unseen_tokens: Count = 0
    output_tokens: Count = 0
    owed_tokens: Count = 0
    """Tokens that the endpoint has yet to prefill."""
    head_tokens: Count = 0
    """Those of the first of these prompts; 0 if its progress shows in no first token, so that `owed_tokens`
    fall with time."""
    since_s: Annotated[float, msgspec.Meta(ge=-1, le=1e9)] = -1.0
    """How long the endpoint has worked on the first of them; -1 if unknown."""
    started: Count = 0
    """Requests sent to it so far."""
    prefilled_tokens: Count = 0
    """Prompt tokens that it was seen to prefill so far."""


class Prompt(msgspec.Struct, frozen=True, array_like=True):
    """A prompt that was sent to an endpoint, or a response to one."""

    endpoint: Place
    hashes: Annotated[bytes, msgspec.Meta(max_length=MAX_PREFIX_BYTES)]
    """Chained hashes of its blocks, 8 bytes each in little-endian order; of a response, that of the prompt's
    last block."""
    size: Annotated[int, msgspec.Meta(ge=0, le=_MAX)] = 0
    """Blocks of the prompt that was responded to; 0 for a prompt."""
    answered: Annotated[int, msgspec.Meta(ge=0, le=_MAX)] = 0
    """Blocks of prompt and response together."""


class Report(msgspec.Struct, frozen=True, array_like=True):
    """What one member sends to all others."""

    number: Annotated[int, msgspec.Meta(ge=1, le=_MAX)]
    """Counts the reports of a member."""
    is_whole: bool
    """Whether it has all loads; other endpoints have none. Otherwise it has those that changed."""
    endpoints: Annotated[list[Address], msgspec.Meta(max_length=MAX_ENDPOINTS)]
    loads: Annotated[list[Load], msgspec.Meta(max_length=MAX_ENDPOINTS)] = []
    prompts: Annotated[list[Prompt], msgspec.Meta(max_length=MAX_PROMPTS)] = []
    queues: bytes = b""
    """What is queued, as `flow.sharing` has it; empty if that has not changed."""


encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Report).decode


def decode(data: bytes | memoryview) -> Report:
    """Raises ValueError for anything that is not a report."""
    try:
        report = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a report: {error}") from None
    most = len(report.endpoints)
    places = [load.endpoint for load in report.loads] + [prompt.endpoint for prompt in report.prompts]
    if places and max(places) >= most:
        raise ValueError(f"not a report: endpoint {max(places)} of {most}")
    return report
