"""The ASGI application: the table of paths."""

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from headgate.simulator.server import bodies
from headgate.simulator.server.apis.operations import Operations
from headgate.simulator.server.endpoint import Endpoint, Handler, no_such_path
from headgate.simulator.server.exchange import Exchange
from headgate.simulator.server.generator import Generator
from headgate.simulator.server.kv_transfer import Transfers
from headgate.simulator.server.metrics import MetricsPage
from headgate.simulator.server.settings import ServerSettings


class EngineApp:
    """Answers for a live engine. A plain ASGI application."""

    def __init__(
        self, settings: ServerSettings, generator: Generator, transfers: Transfers, metrics: MetricsPage
    ) -> None:
        self._generator = generator
        operations = Operations(settings, generator, metrics, transfers)
        side_channel = transfers.side_channel
        table: list[tuple[str, str, Handler]] = [
            ("POST", "/v1/chat/completions", self._chat),
            ("POST", "/v1/completions", self._completion),
            ("GET", "/v1/models", operations.models),
            ("GET", "/health", operations.health),
            ("GET", "/metrics", operations.metrics),
            ("GET", "/version", operations.version),
            ("GET", "/admin/protocol", operations.protocol),
            ("POST", "/kv_transfer/blocks", side_channel.serve_blocks),
            ("POST", "/kv_transfer/rooms/{room:int}", side_channel.serve_room),
        ]
        # Starlette's Router alone: the middleware of a whole application would wrap the send of every token.
        self._router = Router(
            routes=[Route(path, Endpoint(method, handler, settings)) for method, path, handler in table],
            redirect_slashes=False,
            default=Endpoint("", no_such_path, settings),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router(scope, receive, send)

    async def _chat(self, exchange: Exchange) -> None:
        self._generator.require_ready()
        await self._generator.answer(exchange, bodies.read_chat(await exchange.read_body()))

    async def _completion(self, exchange: Exchange) -> None:
        self._generator.require_ready()
        await self._generator.answer(exchange, bodies.read_completion(await exchange.read_body()))
