"""Conversations as a closed loop: who waits for an answer does not send the next turn before it is there."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headgate.simulator.traces.timed import TimedRequest

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
