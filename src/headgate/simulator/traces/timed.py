"""Requests of a trace, without their words: their conversations, and how much of them caches can spare."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

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


# Conversations in a trace that does not name them: a request that goes on where an earlier one ended.
class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """What was found."""

    requests: tuple[TimedRequest, ...]
    """Those of the trace, each with its session."""
    sessions: int
    longest: int
    """Turns of the longest."""


def with_sessions(requests: Sequence[TimedRequest]) -> Sessions:
    """Gives each request that has a prefix its session.

    A request goes on with an earlier one if it begins with all the full blocks of its prompt, the last of
    which no request before that one had: prompts that share no more than a system prompt stay apart.
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


# Conversations as a closed loop: who waits for an answer does not send the next turn before it is there.
TOKEN_S = 0.02
"""How long an answer is taken to have lasted for each of its tokens where a trace tells arrivals alone."""


def in_turn(requests: Sequence[TimedRequest]) -> list[TimedRequest]:
    """The same requests, each turn of a session after the answer to the one before and a pause.

    The pause is what a trace leaves between two turns once the answer of the first, at `TOKEN_S` a token, is
    over. Sessions are in the order of their first turns, with their further turns right behind those. The
    hashes of an answer are those that the next turn's prompt has there.
    """
    turns: dict[int, list[TimedRequest]] = {}
    for number, request in enumerate(requests):
        # Negative keys are requests of no session, each alone.
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
    """What the next prompt has where this one's answer was; nothing if it does not go on with it."""
    size = turn.block_tokens
    if following is None or not size or following.block_tokens != size:
        return ()
    first, last = turn.prompt_tokens // size, (turn.prompt_tokens + turn.output_tokens) // size
    goes_on = following.prefix[:first] == turn.prefix[:first]
    return following.prefix[first : min(last, following.prompt_tokens // size)] if goes_on else ()


def ideal_hit_rate(requests: Iterable[TimedRequest]) -> float | None:
    """The share of prompt tokens that one cache without bounds would find: no fleet can do better.

    None if no request tells its prefix. As in engines, full blocks are found, and the last token is computed.
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
