"""The ASGI application: routes, and the way of a request through the live engine."""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from importlib import metadata

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from headgate.simulator.model import FinishReason, QueueFullError, RefusedError
from headgate.simulator.server import bodies
from headgate.simulator.server.answers import DONE, Answer
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import EVENT_STREAM, Exchange
from headgate.simulator.server.live import LiveEngine, Ticket
from headgate.simulator.server.metrics import CONTENT_TYPE, MetricsPage
from headgate.simulator.server.settings import ServerSettings

Handler = Callable[[Exchange], Awaitable[None]]
_log = logging.getLogger(__name__)
FAILED = ApiError(500, "The simulated engine failed on this request; its log says why")
STOPPED = ApiError(503, "The engine stopped before the answer was complete")


class EngineApp:
    """Answers the OpenAI API from a live engine. A plain ASGI application."""

    def __init__(self, settings: ServerSettings, live: LiveEngine, metrics: MetricsPage) -> None:
        self._settings = settings
        self._live = live
        self._metrics = metrics
        self._created = int(time.time())
        self._ready_at_s = time.monotonic() + settings.startup_s
        # Starlette's Router alone: the middleware of a whole application would wrap the send of every token.
        self._router = Router(
            routes=[
                Route("/v1/chat/completions", _Endpoint("POST", self._chat, settings)),
                Route("/v1/completions", _Endpoint("POST", self._completion, settings)),
                Route("/v1/models", _Endpoint("GET", self._models, settings)),
                Route("/health", _Endpoint("GET", self._health, settings)),
                Route("/metrics", _Endpoint("GET", self._metrics_page, settings)),
                Route("/version", _Endpoint("GET", self._version, settings)),
            ],
            redirect_slashes=False,
            default=_Endpoint("", _no_such_path, settings),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router(scope, receive, send)

    async def _chat(self, exchange: Exchange) -> None:
        self._require_ready()
        await self._generate(exchange, bodies.read_chat(await exchange.read_body()))

    async def _completion(self, exchange: Exchange) -> None:
        self._require_ready()
        await self._generate(exchange, bodies.read_completion(await exchange.read_body()))

    async def _generate(self, exchange: Exchange, generation: bodies.Generation) -> None:
        ticket = self._submit(generation)
        respond = _stream if generation.stream else _whole
        answer_id = exchange.request_id or os.urandom(16).hex()
        try:
            answer = Answer(generation, ticket, answer_id=answer_id, seed=self._settings.seed)
            async with asyncio.TaskGroup() as group:
                watch = group.create_task(self._cancel_on_disconnect(exchange, ticket))
                await respond(exchange, generation, ticket, answer)
                watch.cancel()
        finally:
            self._live.cancel(ticket)

    async def _cancel_on_disconnect(self, exchange: Exchange, ticket: Ticket) -> None:
        await exchange.disconnected()
        self._live.cancel(ticket)

    def _submit(self, generation: bodies.Generation) -> Ticket:
        if generation.model not in self._settings.models:
            raise ApiError(404, f"The model `{generation.model}` does not exist.", param="model")
        sequences = [
            (prompt_tokens, *self._output(generation, prompt_tokens))
            for prompt_tokens in generation.prompts
            for _ in range(generation.choices_per_prompt)
        ]
        try:
            return self._live.submit(sequences, every_token=generation.stream)
        except QueueFullError as error:
            raise ApiError(429, str(error)) from error
        except RefusedError as error:
            raise ApiError(400, str(error)) from error

    def _output(self, generation: bodies.Generation, prompt_tokens: int) -> tuple[int, FinishReason]:
        """How long the answer gets: as long as asked for, else its own length, within the context."""
        if generation.max_tokens is not None:
            return generation.max_tokens, "length"
        room = max(1, self._settings.engine.max_model_len - prompt_tokens)
        if generation.ignore_eos or room < self._settings.max_tokens_default:
            return room, "length"
        return self._settings.max_tokens_default, "stop"

    def _require_ready(self) -> None:
        left_s = self._ready_at_s - time.monotonic()
        if left_s > 0:
            raise ApiError(503, f"The model is still loading, for another {left_s:.1f} s")

    async def _models(self, exchange: Exchange) -> None:
        root = self._settings.models[0]
        cards = [
            {
                "id": name,
                "object": "model",
                "created": self._created,
                "owned_by": "headgate",
                "root": root,
                "parent": None,
                "max_model_len": self._settings.engine.max_model_len,
            }
            for name in self._settings.models
        ]
        await exchange.answer_json({"object": "list", "data": cards})

    async def _health(self, exchange: Exchange) -> None:
        self._require_ready()
        await exchange.answer(b"")

    async def _metrics_page(self, exchange: Exchange) -> None:
        await exchange.answer(self._metrics.render(), content_type=CONTENT_TYPE)

    async def _version(self, exchange: Exchange) -> None:
        await exchange.answer_json({"version": metadata.version("headgate")})


async def _whole(exchange: Exchange, _: bodies.Generation, ticket: Ticket, answer: Answer) -> None:
    while ticket.unfinished:
        await ticket.changed()
    if ticket.aborted:
        await exchange.answer(STOPPED.body(), status=STOPPED.status)
    else:
        await exchange.answer(answer.whole())


async def _stream(exchange: Exchange, generation: bodies.Generation, ticket: Ticket, answer: Answer) -> None:
    """One send for each token, as soon as its step ends."""
    await exchange.start(200, EVENT_STREAM)
    sent = [0] * len(ticket.choices)
    running = True
    while running:
        await ticket.changed()
        running = ticket.unfinished > 0
        for index, choice in enumerate(ticket.choices):
            while sent[index] < choice.emitted and not ticket.aborted:
                await exchange.write(answer.token_event(index, sent[index]))
                sent[index] += 1
    if ticket.aborted:
        await exchange.write(b"data: " + STOPPED.body() + b"\n\n")
    elif generation.include_usage:
        await exchange.write(answer.usage_event())
    await exchange.write(DONE, more=False)


async def _no_such_path(exchange: Exchange) -> None:
    raise ApiError(404, "There is no such path; see /v1/models, /v1/chat/completions, /v1/completions")


class _Endpoint:
    """A handler for one method, whose errors become OpenAI's error objects."""

    def __init__(self, method: str, handler: Handler, settings: ServerSettings) -> None:
        self._method = method
        self._handler = handler
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, self._settings)
        try:
            if self._method and exchange.method != self._method:
                raise ApiError(405, f"{exchange.method} is not allowed here, {self._method} is")
            await self._handler(exchange)
        except ApiError as error:
            await exchange.answer(error.body(), status=error.status)
        except Exception:
            _log.exception("%s %s failed", exchange.method, scope["path"])
            if exchange.started:
                raise  # too late for an answer: uvicorn cuts the connection
            await exchange.answer(FAILED.body(), status=FAILED.status)
