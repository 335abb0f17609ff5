"""The handlers of the gRPC service."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

import grpc  # type: ignore[import-untyped]
import msgspec

from headgate.simulator.model import LARGEST_TOKEN
from headgate.simulator.server.answers.token_ids import ids_of
from headgate.simulator.server.bodies.prompts import token_ids
from headgate.simulator.server.errors import STOPPED, ApiError
from headgate.simulator.server.generation import Generation
from headgate.simulator.server.instance import Instance
from headgate.simulator.server.live import Ticket
from headgate.simulator.server.script import Script
from headgate.simulator.server.tokenizing import tokenize, use
from headgate.simulator.server.vllm_grpc import reflection
from headgate.simulator.server.vllm_grpc.messages import CLASSES, SERVICE

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}

Stop = Callable[[], Awaitable[None]]
Context = Any
"""`grpc.aio.ServicerContext`, which has no types."""


class Service:
    """Answers for an instance."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._began_s = time.monotonic()
        self._last_unix_s = 0.0
        self._running: dict[str, set[Ticket]] = {}
        """By the ids that clients gave; several may have given the same."""

    def handler(self) -> Any:
        """For `grpc.aio.Server.add_generic_rpc_handlers`."""
        unary = grpc.unary_unary_rpc_method_handler
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "Generate": grpc.unary_stream_rpc_method_handler(self.generate, *_coders("GenerateRequest")),
                "Abort": unary(self.abort, *_coders("AbortRequest")),
                "HealthCheck": unary(self.health, *_coders("HealthCheckRequest")),
                "GetModelInfo": unary(self.model_info, *_coders("GetModelInfoRequest")),
                "GetServerInfo": unary(self.server_info, *_coders("GetServerInfoRequest")),
            },
        )

    async def generate(self, request: Any, context: Context) -> AsyncIterator[Any]:
        """A chunk for each token, where the request streams, and the whole at the end.

        A client that leaves ends it.
        """
        self._last_unix_s = time.time()
        use(self._instance.tokenizer)
        generator = self._instance.generator
        try:
            generator.require_ready()
            metadata = dict(context.invocation_metadata())
            await self._instance.failures.admit_call(str(metadata.get("x-return-error", "")))
            generation = await self._rendered(_generation(request, self._instance.settings.models[0]))
            ticket, (script,) = generator.start(generation)
        except ApiError as error:
            await _abort(context, error)
        running = self._running.setdefault(request.request_id, set())
        running.add(ticket)
        try:
            said: list[int] = []
            async for ids in _told(ticket, script):
                said += ids
                if request.stream:
                    yield _response(request, chunk=_chunk(generation, ticket, ids))
            if ticket.aborted and ticket in running:
                await _abort(context, STOPPED)
            yield _response(request, complete=_complete(generation, ticket, said))
        finally:
            ticket.cancel()
            running.discard(ticket)
            if not running and self._running.get(request.request_id) is running:
                del self._running[request.request_id]

    async def _rendered(self, generation: Generation) -> Generation:
        """With the tokens of its text by the render service, if there is one."""
        service, (text,) = self._instance.prompts.service, generation.said
        if service is None or not text:
            return generation
        return msgspec.structs.replace(generation, prompts=tuple(await service.texts([text])))

    async def abort(self, request: Any, context: Context) -> Any:
        """End the calls of these ids, with what they have; ids that are not here are passed over."""
        for request_id in request.request_ids:
            tickets = self._running.pop(request_id, set())
            for ticket in tickets:
                ticket.cancel()
            tickets.clear()  # by which the calls know that they were meant
        return CLASSES["AbortResponse"]()

    async def health(self, request: Any, context: Context) -> Any:
        try:
            self._instance.generator.require_ready()
            self._instance.failures.require_ready()
        except ApiError as error:
            return CLASSES["HealthCheckResponse"](healthy=False, message=error.message)
        return CLASSES["HealthCheckResponse"](healthy=True, message="Health")

    async def model_info(self, request: Any, context: Context) -> Any:
        settings = self._instance.settings
        return CLASSES["GetModelInfoResponse"](
            model_path=settings.models[0],
            is_generation=True,
            max_context_length=settings.engine.max_model_len,
            vocab_size=LARGEST_TOKEN,
            supports_vision=True,
        )

    async def server_info(self, request: Any, context: Context) -> Any:
        now = self._instance.ranks.statistics()
        return CLASSES["GetServerInfoResponse"](
            active_requests=now.running + now.waiting,
            is_paused=self._instance.ranks.asleep,
            last_receive_timestamp=self._last_unix_s,
            uptime_seconds=time.monotonic() - self._began_s,
            server_type="vllm-grpc",
        )


@contextlib.asynccontextmanager
async def running(instance: Instance) -> AsyncIterator[tuple[str, Stop]]:
    """A gRPC server while the block lasts: the Unix socket where it is, and what lets its calls end."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "grpc")
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((Service(instance).handler(), *reflection.handlers()))
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        try:
            yield path, lambda: server.stop(instance.settings.drain_s)
        finally:
            await server.stop(None)


def _coders(request: str) -> tuple[Any, Any]:
    return CLASSES[request].FromString, lambda response: response.SerializeToString()


def _generation(request: Any, model: str) -> Generation:
    """Raises ApiError that names the field."""
    params = request.sampling_params
    if params.n > 1:
        raise ApiError(400, f"sampling_params.n: must be 1, got {params.n}", param="sampling_params.n")
    max_tokens = params.max_tokens if params.HasField("max_tokens") else None
    if max_tokens == 0 or (max_tokens is not None and params.min_tokens > max_tokens):
        problem = f"must be at least 1 and min_tokens={params.min_tokens}, got {max_tokens}"
        raise ApiError(400, f"sampling_params.max_tokens: {problem}", param="sampling_params.max_tokens")
    if request.WhichOneof("input") == "text":
        prompt, said = tokenize(request.text), request.text
    else:
        prompt, said = token_ids("tokenized.input_ids", request.tokenized.input_ids), ""
    if not prompt:
        raise ApiError(400, "input: must not be empty", param="input")
    return Generation(
        model=model,
        prompts=(prompt,),
        said=(said,),
        max_tokens=max_tokens,
        min_tokens=params.min_tokens,
        ignore_eos=params.ignore_eos,
        stop=tuple(filter(None, params.stop)),
        seed=params.seed if params.HasField("seed") else None,
        stream=request.stream,
    )


async def _told(ticket: Ticket, script: Script) -> AsyncIterator[list[int]]:
    """Token ids as they fall due."""
    (choice,) = ticket.choices
    sent = 0
    while ticket.unfinished or sent < choice.emitted:
        if sent == choice.emitted:
            await ticket.changed()
            continue
        ids = ids_of(script, choice.emitted - sent)
        sent = choice.emitted
        yield ids


def _response(request: Any, **part: Any) -> Any:
    return CLASSES["GenerateResponse"](request_id=request.request_id, **part)


def _chunk(generation: Generation, ticket: Ticket, ids: list[int]) -> Any:
    (choice,) = ticket.choices
    return CLASSES["GenerateStreamChunk"](
        token_ids=ids,
        prompt_tokens=len(generation.prompts[0]),
        completion_tokens=choice.emitted,
        cached_tokens=choice.cached_tokens,
    )


def _complete(generation: Generation, ticket: Ticket, said: list[int]) -> Any:
    (choice,) = ticket.choices
    return CLASSES["GenerateComplete"](
        output_ids=said,
        finish_reason=choice.finish_reason,
        prompt_tokens=len(generation.prompts[0]),
        completion_tokens=choice.emitted,
        cached_tokens=choice.cached_tokens,
    )


async def _abort(context: Context, error: ApiError) -> NoReturn:
    await context.abort(_CODES.get(error.status, grpc.StatusCode.INTERNAL), error.message)
    raise AssertionError("abort raises")
