"""The ASGI application: the routes, and errors in the format of their API."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import Receive, Scope, Send

from headgate.simulator.server.answers.messages import error_body
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import ClientGoneError, Exchange
from headgate.simulator.server.handlers import Admin, Anthropic, OpenAI, Operations, Sleeping, Tokens
from headgate.simulator.server.instance import Instance
from headgate.simulator.server.loading import Loading, SglangLoading
from headgate.simulator.server.media import Audio, Pooling
from headgate.simulator.server.realtime import Realtime
from headgate.simulator.server.settings import ServerSettings

Handler = Callable[[Exchange], Awaitable[None]]
_log = logging.getLogger(__name__)
FAILED = ApiError(500, "The simulated engine failed on this request: see its log")


class Endpoint:
    """A handler for one method (any if empty), as an ASGI application."""

    def __init__(
        self,
        method: str,
        handler: Handler,
        settings: ServerSettings,
        error_body: Callable[[ApiError], bytes] = ApiError.body,
        guard: Handler | None = None,
    ) -> None:
        self._guard = guard or _let_pass
        self._method = method
        self._error_body = error_body
        self._handler = handler
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send, self._settings, self._guard)
        try:
            await exchange.require_up()
            if self._method and exchange.method != self._method:
                raise ApiError(405, f"{exchange.method} is not allowed here, {self._method} is")
            await self._handler(exchange)
        except ApiError as error:
            await self._refuse(exchange, error)
        except ClientGoneError:
            pass
        except Exception:
            _log.exception("%s %s failed", exchange.method, scope["path"])
            if exchange.started:
                raise  # too late for an error response: uvicorn cuts the connection
            await exchange.answer(self._error_body(FAILED), status=FAILED.status)

    async def _refuse(self, exchange: Exchange, error: ApiError) -> None:
        try:
            await exchange.require_up()  # an engine that crashed in the meantime sends nothing
            body = self._error_body(error)
            await exchange.answer(body, status=error.status, retry_after_s=error.retry_after_s)
        except ClientGoneError:
            pass


async def _let_pass(exchange: Exchange) -> None:
    """For paths that work even if the engine has crashed."""


async def no_such_path(exchange: Exchange) -> None:
    raise ApiError(404, "There is no such path; see /v1/models, /v1/chat/completions, /v1/completions")


class EngineApp:
    """The ASGI application of an instance."""

    def __init__(self, instance: Instance) -> None:
        openai = OpenAI(instance)
        operations = Operations(instance)
        loading = Loading(instance)
        sglang = SglangLoading(instance)
        tokens = Tokens(instance)
        audio = Audio(instance)
        pooling = Pooling(instance)
        anthropic = Anthropic(instance)
        admin = Admin(instance)
        sleeping = Sleeping(instance)
        side_channel = instance.transfers.side_channel
        table: list[tuple[str, str, Handler]] = [
            ("POST", "/v1/chat/completions", openai.chat),
            ("POST", "/v1/completions", openai.completion),
            ("POST", "/v1/responses", openai.responses),
            ("POST", "/v1/messages", anthropic.messages),
            ("POST", "/v1/messages/count_tokens", anthropic.count_tokens),
            ("POST", "/v1/audio/transcriptions", audio.transcribe),
            ("POST", "/v1/audio/translations", audio.transcribe),
            ("POST", "/v1/embeddings", pooling.embed),
            ("POST", "/rerank", pooling.rerank),
            ("POST", "/v1/rerank", pooling.rerank),
            ("POST", "/v2/rerank", pooling.rerank),
            ("GET", "/v1/models", operations.models),
            ("POST", "/v1/load_lora_adapter", loading.load),
            ("POST", "/v1/unload_lora_adapter", loading.unload),
            ("POST", "/load_lora_adapter", sglang.load),
            ("POST", "/unload_lora_adapter", sglang.unload),
            ("POST", "/tokenize", tokens.tokenize),
            ("POST", "/detokenize", tokens.detokenize),
            ("POST", "/sleep", sleeping.sleep),
            ("POST", "/wake_up", sleeping.wake_up),
            ("GET", "/is_sleeping", sleeping.is_sleeping),
            ("GET", "/health", operations.health),
            ("GET", "/health/ready", operations.health),
            ("GET", "/ping", operations.health),
            ("GET", "/metrics", operations.metrics),
            ("GET", "/load", operations.load),
            ("GET", "/version", operations.version),
            ("GET", "/kv_event_sources", operations.kv_event_sources),
            ("POST", "/kv_transfer/blocks", side_channel.serve_blocks),
            ("POST", "/kv_transfer/rooms/{room:int}", side_channel.serve_room),
        ]
        # Only Starlette's Router: the middleware of a full application would wrap the send of every token.
        self._router = Router(
            routes=[
                Route(
                    path,
                    Endpoint(
                        method, handler, instance.settings, _errors_of(path), instance.failures.require_up
                    ),
                )
                for method, path, handler in table
            ]
            # Paths that change and report failures work in any state.
            + [
                Route("/admin/config", Endpoint("", admin.config, instance.settings)),
                Route("/admin/protocol", Endpoint("GET", admin.protocol, instance.settings)),
                WebSocketRoute("/v1/realtime", Realtime(instance).serve),
            ],
            redirect_slashes=False,
            default=Endpoint("", no_such_path, instance.settings),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router(scope, receive, send)


def _errors_of(path: str) -> Callable[[ApiError], bytes]:
    """The error format of the path's API."""
    return error_body if path.startswith("/v1/messages") else ApiError.body
