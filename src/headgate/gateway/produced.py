"""How many tokens of an answer came, where the engine did not count them to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.gateway.exchange import Exchange

BYTES_PER_TOKEN = 4
"""Of an answer that came in no events and without counts: English text."""


def tokens(exchange: Exchange, expected_tokens: int) -> int:
    """Of an answer that broke off, or has no counts; counts that there are may be those of its beginning.

    Engines send what they generate, a token in each event; of an answer in one piece, no more than was
    expected is believed. A compressed answer that could not be inflated counts for as many as expected, or
    for its bytes if these are fewer. Read from the end of the answer and its length: nothing is kept for it
    on its way.
    """
    size = exchange.plain_bytes
    if not size:
        return min(exchange.bytes_out, expected_tokens)
    event_bytes = exchange.tail.event_bytes() if exchange.decision.stream else 0.0
    came = round(size / event_bytes) if event_bytes else min(size // BYTES_PER_TOKEN, expected_tokens)
    return came if exchange.usage is None else max(came, exchange.usage.completion)
