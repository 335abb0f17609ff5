"""A request of a trace: its sizes and its time, without its words."""

from __future__ import annotations

import math

import msgspec


class TimedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request that arrives `at_s` seconds after the trace begins, or after an answer."""

    at_s: float
    think_s: float | None = None
    """So many seconds pass between the end of the request before it of the same session and its arrival,
    whatever `at_s` says; None arrives at `at_s`."""
    prompt_tokens: int
    output_tokens: int
    prefix: tuple[int, ...] = ()
    """Chained hashes of the prompt's blocks, the first block first and the last one partly filled: two
    prompts begin alike as far as their hashes are the same. Empty where the trace does not say."""
    block_tokens: int = 0
    """Tokens in one block of `prefix`; 0 without one."""
    answer: tuple[int, ...] = ()
    """Hashes of the blocks that the answer fills, as the prompt of a next turn has them: first of the one
    that the prompt left partly full, chained on. Empty where the trace does not say."""
    adapter: str = ""
    """The adapter that is asked for; empty for the base model."""
    tenant: str = ""
    """Who asks, where the trace says."""
    session: int = -1
    """Requests of one conversation have the same; -1 where none is known."""
    priority: int = 0
    """Critical is 1, default 0, sheddable -1."""
    is_streamed: bool = True
    """Whether tokens are sent as they come; otherwise the client, and the gateway, see the whole answer."""
    until_s: float = math.inf
    """With `think_s`: a turn that would come later than this is not sent, nor are those behind it."""
