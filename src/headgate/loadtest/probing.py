"""Find out what a server serves and which fields it takes, with a few requests before a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from headgate.loadtest.http import Connections, HttpError, OnData, Response, Server
from headgate.loadtest.plan.conversations import Form, Prompts, Turn
from headgate.loadtest.records import OK, Tally
from headgate.loadtest.sending import Ask, Sender
from headgate.traffic.traces import TimedRequest

__all__ = ["Patience", "Probed", "probe", "served_model"]

ANSWER_S: Final = 10.0
"""For lists of models."""
WARM_UP_S: Final = 120.0
"""For the first request: an engine may compile then."""
PATIENCE_S: Final = 60.0
"""For all waits together that a server asks for before the run."""
MAX_WAITS: Final = 10
_BUSY: Final = (429, 503)
_PROMPT_TOKENS: Final = 64
_OUTPUT_TOKENS: Final = 4


_sleep = asyncio.sleep


class Patience:
    """Waits when a server is busy before the run, as long as it asks for, and not forever."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` gets a message for people before each wait."""
        self._tell = tell
        self._left_s = PATIENCE_S
        self._waits = 0

    async def wait(self, status: int, headers: Mapping[bytes, bytes]) -> bool:
        """Wait if another try may succeed; returns whether it may. Raises HttpError if the server asks for
        more time than there is."""
        asked = headers.get(b"retry-after", b"")
        if status not in _BUSY or (status != 429 and not asked) or self._waits >= MAX_WAITS:
            return False
        wait_s = float(asked) if asked.isdigit() and len(asked) < 8 else 2.0**self._waits
        if wait_s > self._left_s:
            told = f"status {status}: the server asks to try again in {wait_s:g} s, which is too long to wait"
            raise HttpError(f"{told}; start again then, or use a key with a higher limit", f"http {status}")
        self._tell(f"status {status} before the run; trying again in {wait_s:g} s")
        self._waits += 1
        self._left_s -= wait_s
        await _sleep(wait_s)
        return True


class _Heard(Connections):
    """Keeps the last response."""

    last: Response | None = None

    async def send(self, request: bytes, on_data: OnData | None = None) -> Response:
        self.last = None
        self.last = await super().send(request, on_data)
        return self.last


class _Model(msgspec.Struct):
    id: str
    parent: str | None = None


class _Models(msgspec.Struct):
    data: list[_Model]


async def served_model(server: Server, patience: Patience | None = None) -> str:
    """The only model that a server has, besides adapters. Raises HttpError."""
    answer = await server.get("/v1/models", ANSWER_S)
    while patience is not None and await patience.wait(answer.status, answer.headers):
        answer = await server.get("/v1/models", ANSWER_S)
    try:
        if answer.status in (401, 403):
            raise ValueError(
                f"status {answer.status}: set HEADGATE_API_KEY, or name a file by --api-key-file"
            )
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


async def probe(server: Server, form: Form, salt: str, patience: Patience) -> Probed:
    """Send one short request, and again without the fields that the server rejects, or if the server is busy.
    Raises HttpError."""
    notes: list[str] = []
    error = await _tried(server, form, salt, patience)
    if error is not None and error.kind in ("http 400", "http 422") and form.is_exact:
        shorter = msgspec.structs.replace(form, is_exact=False)
        if await _tried(server, shorter, salt, patience) is None:
            note = "the server rejects ignore_eos and min_tokens: responses may be shorter than planned"
            return Probed(shorter, (note,))
    if error is not None and error.kind in ("http 400", "http 422") and form.asks_for_usage:
        form = msgspec.structs.replace(form, is_exact=False, asks_for_usage=False)
        if (again := await _tried(server, form, salt, patience)) is None:
            notes.append("the server rejects stream_options, ignore_eos or min_tokens")
            notes.append("tokens of outputs are counted by events, those of prompts are the plan's")
        error = again
    if error is not None:
        raise HttpError(f"POST {form.path}: {error}", error.kind)
    return Probed(form, tuple(notes))


async def _tried(server: Server, form: Form, salt: str, patience: Patience) -> HttpError | None:
    """What is wrong with a short request; None if it works."""
    while True:
        connections = _Heard(server)
        error = await _sent(connections, form, salt)
        heard = connections.last
        if error is None or heard is None or not await patience.wait(heard.status, heard.headers):
            return error


async def _sent(connections: Connections, form: Form, salt: str) -> HttpError | None:
    tally = Tally()
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
