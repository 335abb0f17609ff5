"""One path of the server: its method, its handler, and errors that become objects of its API."""

import logging
from collections.abc import Awaitable, Callable

from starlette.types import Receive, Scope, Send

from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.exchange import ClientGoneError, Exchange
from headgate.simulator.server.settings import ServerSettings

Handler = Callable[[Exchange], Awaitable[None]]
_log = logging.getLogger(__name__)
FAILED = ApiError(500, "The simulated engine failed on this request; its log says why")


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
                raise  # too late for an answer: uvicorn cuts the connection
            await exchange.answer(self._error_body(FAILED), status=FAILED.status)

    async def _refuse(self, exchange: Exchange, error: ApiError) -> None:
        try:
            await exchange.require_up()  # an engine that crashed meanwhile says nothing
            body = self._error_body(error)
            await exchange.answer(body, status=error.status, retry_after_s=error.retry_after_s)
        except ClientGoneError:
            pass


async def _let_pass(exchange: Exchange) -> None:
    """For paths that a crash of the engine does not concern."""


async def no_such_path(exchange: Exchange) -> None:
    raise ApiError(404, "There is no such path; see /v1/models, /v1/chat/completions, /v1/completions")
