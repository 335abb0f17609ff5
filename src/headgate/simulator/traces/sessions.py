"""Conversations in a trace that does not name them: a request that goes on where an earlier one ended."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.simulator.traces.timed import TimedRequest


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
