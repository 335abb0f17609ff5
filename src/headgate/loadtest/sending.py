"""Send one request of a plan, and record what it experienced."""

from __future__ import annotations

import asyncio
import time
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from headgate.loadtest.http import Connections, HttpError, Response
from headgate.loadtest.plan.conversations import Form, Turn
from headgate.loadtest.records import INTERRUPTED, OK, Record, Slo, Tally
from headgate.loadtest.streams import Answer, shown

MAX_ENDPOINT_CHARACTERS = 128
MAX_MODEL_CHARACTERS = 128


class Ask(NamedTuple):
    """A request that is due. Times are those of `time.perf_counter`."""

    turn: Turn
    said: Sequence[str]
    """Texts of user and assistant so far, the last one the user's."""
    due_s: float
    began_s: float
    """When the run began."""
    wants_text: bool = False


class Sender:
    """Sends requests to one server and counts them."""

    def __init__(
        self, connections: Connections, form: Form, tally: Tally, timeout_s: float, salt: str = ""
    ) -> None:
        """`salt` distinguishes the sessions of this run from those of others."""
        self._connections = connections
        self._form = form
        self._tally = tally
        self._timeout_s = timeout_s
        self._salt = salt

    async def send(self, ask: Ask) -> str | None:
        """Send a request; returns the text of the response if it is wanted, None if the request failed."""
        turn = ask.turn
        body = self._form.body(ask.said, turn.request)
        answer = Answer(keeps_text=ask.wants_text)
        times = _Times(ask.due_s, ask.began_s, time.perf_counter())
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._connections.send(
                    self._head(turn, len(body)) + body, answer.take if self._form.is_streamed else None
                )
            if response.status == 200 and not self._form.is_streamed:
                answer.take_document(response.body, time.perf_counter())
        except TimeoutError:
            message = f"no complete response within {self._timeout_s:g} s"
            self._failed(turn, times, "timeout", message)
        except HttpError as error:
            self._failed(turn, times, error.kind, str(error))
        except asyncio.CancelledError:
            self._failed(turn, times, INTERRUPTED, "")
            raise
        else:
            return self._received(turn, times, response, answer)
        return None

    def _head(self, turn: Turn, length: int) -> bytes:
        head = self._connections.server.head("POST", self._form.path, length)
        if turn.request.session >= 0:
            name = f"x-session-id: {self._salt}{turn.request.session}\r\n\r\n"
            head = head[:-2] + name.encode("latin-1")
        return head

    def _failed(self, turn: Turn, times: _Times, kind: str, message: str, endpoint: str = "") -> None:
        record = Record(
            turn.number,
            times.due_s - times.began_s,
            times.sent_s - times.due_s,
            kind,
            endpoint=endpoint,
        )
        self._tally.take(record, message=message)

    def _received(self, turn: Turn, times: _Times, response: Response, answer: Answer) -> str | None:
        endpoint = _endpoint(response.headers)
        if response.status != 200:
            self._failed(turn, times, f"http {response.status}", shown(response.body), endpoint)
            return None
        if self._form.is_streamed and not (answer.is_done or answer.finish_reason):
            self._failed(turn, times, "incomplete", "the stream ended without its last event", endpoint)
            return None
        record = self._record(turn, times, answer, endpoint)
        if not record.output_tokens:
            self._failed(turn, times, "empty", "the response has no tokens", endpoint)
            return None
        record = _judged(record, self._tally.slo)
        asked = (turn.request.prompt_tokens, turn.request.output_tokens)
        self._tally.take(record, answer.gaps_s, asked)
        if other := response.headers.get(b"x-headgate-model"):
            self._tally.took_over(other[:MAX_MODEL_CHARACTERS].decode("latin-1"))
        return answer.text

    def _record(self, turn: Turn, times: _Times, answer: Answer, endpoint: str) -> Record:
        usage = answer.usage
        counted = usage.completion_tokens if usage is not None else None
        tokens = answer.events if counted is None else counted
        has_times = self._form.is_streamed and answer.events > 0
        last_s = answer.last_s if has_times else time.perf_counter()
        tpot_s = (answer.last_s - answer.first_s) / (tokens - 1) if has_times and tokens > 1 else None
        return Record(
            turn.number,
            times.due_s - times.began_s,
            times.sent_s - times.due_s,
            OK,
            ttft_s=answer.first_s - times.due_s if has_times else None,
            tpot_s=tpot_s,
            latency_s=last_s - times.due_s,
            prompt_tokens=usage.prompt_tokens if usage is not None else turn.request.prompt_tokens,
            output_tokens=tokens,
            cached_tokens=usage.cached_tokens if usage is not None else None,
            endpoint=endpoint,
        )


class _Times(NamedTuple):
    """By `time.perf_counter`."""

    due_s: float
    began_s: float
    sent_s: float


def _judged(record: Record, slo: Slo) -> Record:
    return msgspec.structs.replace(record, is_good=slo.is_met(record))


def _endpoint(headers: Mapping[bytes, bytes]) -> str:
    """The endpoint that served a request, by the headers of Headgate or of a simulated engine."""
    decision = headers.get(b"x-headgate-decision")
    if decision is not None:
        for pair in decision.decode("latin-1").split(";"):
            name, _, value = pair.strip().partition("=")
            if name == "endpoint":
                return urllib.parse.unquote(value)[:MAX_ENDPOINT_CHARACTERS]
    return headers.get(b"x-inference-pod", b"").decode("latin-1")[:MAX_ENDPOINT_CHARACTERS]
