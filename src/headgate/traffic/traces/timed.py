"""Requests of a trace, without their text: conversations, and how many tokens caches can save."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec


class TimedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request, which arrives `at_s` seconds after the trace begins, or after a response."""

    at_s: float
    think_s: float | None = None
    """Seconds between the end of the previous request of the session and this one's arrival, which override
    `at_s`; None arrives at `at_s`.
    """
    prompt_tokens: int
    output_tokens: int
    prefix: tuple[int, ...] = ()
    """Chained hashes of the prompt's blocks, front first, the last one possibly partial: prompts share a
    prefix as far as their hashes are equal. Empty if unknown.
    """
    block_tokens: int = 0
    """Tokens per block of `prefix`; 0 without one."""
    answer: tuple[int, ...] = ()
    """Hashes of the blocks that the output fills, as the prompt of a next turn has them: first the prompt's
    partial last block, chained on. Empty if unknown.
    """
    adapter: str = ""
    """The requested adapter; empty for the base model."""
    tenant: str = ""
    """The sender, if the trace names it."""
    session: int = -1
    """Requests of one conversation share it; -1 if unknown."""
    priority: int = 0
    """Critical is 1, default 0, sheddable -1."""
    is_streamed: bool = True
    """Whether tokens are streamed; otherwise client and gateway only see the complete response."""
    until_s: float = math.inf
    """With `think_s`: a turn that would arrive later than this is not sent, nor are later turns."""


# Detect conversations in a trace that does not name them: a request that continues an earlier one.
class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """The detected sessions."""

    requests: tuple[TimedRequest, ...]
    """The requests of the trace, each with its session."""
    sessions: int
    longest: int
    """Number of turns of the longest session."""


def with_sessions(requests: Sequence[TimedRequest]) -> Sessions:
    """Assign a session to each request that has a prefix.

    A request continues an earlier one if it begins with all full blocks of its prompt, the last of which no
    request before that one had: prompts that share only a system prompt stay separate.
    """
    session_of_block: dict[int, int] = {}
    seen: set[int] = set()
    turns: list[int] = []
    told = []
    for request in requests:
        if not request.prefix:
            told.append(request)
            continue
        full = request.prefix[: request.prompt_tokens // request.block_tokens]
        session = next((session_of_block[block] for block in reversed(full) if block in session_of_block), -1)
        if session < 0:
            session = len(turns)
            turns.append(0)
        turns[session] += 1
        if full and full[-1] not in seen:
            session_of_block[full[-1]] = session
        seen.update(full)
        told.append(msgspec.structs.replace(request, session=session))
    return Sessions(requests=tuple(told), sessions=len(turns), longest=max(turns, default=0))


# Conversations as a closed loop: a client that waits for a response does not send its next turn before.
TOKEN_S = 0.02
"""Assumed output time per token, for traces that only have arrivals."""


def in_turn(requests: Sequence[TimedRequest]) -> list[TimedRequest]:
    """The same requests, each turn of a session after the previous response and a pause.

    The pause is the time in the trace between two turns, less the output time of the first at `TOKEN_S` per
    token. Sessions are ordered by their first turns, each directly followed by its further turns. The hashes
    of an output are those at its place in the next turn's prompt.
    """
    turns: dict[int, list[TimedRequest]] = {}
    for number, request in enumerate(requests):
        # Negative keys are requests without a session, each on its own.
        turns.setdefault(request.session if request.session >= 0 else ~number, []).append(request)
    return [turn for session in turns.values() for turn in _of_session(session)]


def _of_session(turns: Sequence[TimedRequest]) -> list[TimedRequest]:
    told = []
    for number, turn in enumerate(turns):
        following = turns[number + 1] if number + 1 < len(turns) else None
        before = turns[number - 1] if number else None
        told.append(
            msgspec.structs.replace(
                turn,
                at_s=turns[0].at_s,
                think_s=None if before is None else _pause_s(before, turn),
                answer=turn.answer or _answer(turn, following),
            )
        )
    return told


def _pause_s(before: TimedRequest, turn: TimedRequest) -> float:
    return max(0.0, turn.at_s - before.at_s - before.output_tokens * TOKEN_S)


def _answer(turn: TimedRequest, following: TimedRequest | None) -> tuple[int, ...]:
    """The next prompt's hashes at the place of this output; empty if it does not continue it."""
    size = turn.block_tokens
    if following is None or not size or following.block_tokens != size:
        return ()
    first, last = turn.prompt_tokens // size, (turn.prompt_tokens + turn.output_tokens) // size
    goes_on = following.prefix[:first] == turn.prefix[:first]
    return following.prefix[first : min(last, following.prompt_tokens // size)] if goes_on else ()


def ideal_hit_rate(requests: Iterable[TimedRequest]) -> float | None:
    """The share of prompt tokens that one unlimited cache would find, the maximum for any fleet.

    None if no request has a prefix. As in engines, only full blocks are found, and the last token is
    computed.
    """
    seen: set[int] = set()
    cached = tokens = 0
    for request in requests:
        tokens += request.prompt_tokens
        if not request.prefix:
            continue
        usable = request.prefix[: (request.prompt_tokens - 1) // request.block_tokens]
        known = next((index for index, block in enumerate(usable) if block not in seen), len(usable))
        cached += known * request.block_tokens
        seen.update(request.prefix[: request.prompt_tokens // request.block_tokens])
        seen.update(request.answer)
    return cached / tokens if seen else None
