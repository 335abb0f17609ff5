"""Find out what a server serves and which fields it takes, with a few requests before a run."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from headgate.loadtest.http import Connections, HttpError, Server
from headgate.loadtest.plan.conversations import Form, Prompts, Turn
from headgate.loadtest.records import OK, Tally
from headgate.loadtest.sending import Ask, Sender
from headgate.traffic.traces import TimedRequest

__all__ = ["Probed", "probe", "served_model"]

ANSWER_S: Final = 10.0
"""For lists of models."""
WARM_UP_S: Final = 120.0
"""For the first request: an engine may compile then."""
_PROMPT_TOKENS: Final = 64
_OUTPUT_TOKENS: Final = 4


class _Model(msgspec.Struct):
    id: str
    parent: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


async def served_model(server: Server) -> str:
    """The only model that a server has, besides adapters. Raises HttpError."""
    answer = await server.get("/v1/models", ANSWER_S)
    try:
        if answer.status != 200:
            raise ValueError(f"status {answer.status}")
        listed = msgspec.json.decode(answer.body, type=_Models).data
    except (ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise HttpError(f"GET /v1/models has no list of models: {error}") from error
    names = [each.id for each in listed if each.parent is None]
    if len(names) != 1:
        shown = ", ".join(names[:10]) or "none"
        raise HttpError(f"choose a model with --model; the server has: {shown}")
    return names[0]


class Probed(NamedTuple):
    """How requests to a server are written."""

    form: Form
    notes: tuple[str, ...]


async def probe(server: Server, form: Form, salt: str) -> Probed:
    """Send one short request, and again without the fields that the server rejects. Raises HttpError."""
    notes: list[str] = []
    error = await _tried(server, form, salt)
    if error is not None and error.kind in ("http 400", "http 422") and form.is_exact:
        shorter = msgspec.structs.replace(form, is_exact=False)
        if await _tried(server, shorter, salt) is None:
            note = "the server rejects ignore_eos and min_tokens: responses may be shorter than planned"
            return Probed(shorter, (note,))
    if error is not None and error.kind in ("http 400", "http 422") and form.asks_for_usage:
        form = msgspec.structs.replace(form, is_exact=False, asks_for_usage=False)
        if (again := await _tried(server, form, salt)) is None:
            notes.append("the server rejects stream_options, ignore_eos or min_tokens")
            notes.append("tokens of outputs are counted by events, those of prompts are the plan's")
        error = again
    if error is not None:
        raise HttpError(f"POST {form.path}: {error}", error.kind)
    return Probed(form, tuple(notes))


async def _tried(server: Server, form: Form, salt: str) -> HttpError | None:
    """What is wrong with a short request; None if it works."""
    tally = Tally()
    connections = Connections(server)
    request = TimedRequest(at_s=0.0, prompt_tokens=_PROMPT_TOKENS, output_tokens=_OUTPUT_TOKENS)
    turn = Turn(0, request)
    text = Prompts(f"{salt}/probe").text(turn, None)
    try:
        await Sender(connections, form, tally, WARM_UP_S).send(Ask(turn, [text], 0.0, 0.0))
    finally:
        connections.close()
    if tally.records and tally.records[0].outcome == OK:
        return None
    kind = next(iter(tally.errors))
    return HttpError(
        f"{kind}: {tally.examples[kind]}" if kind.startswith("http") else tally.examples[kind], kind
    )
