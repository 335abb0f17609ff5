"""The ASGI application: the table of paths."""

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from headgate.simulator.server.apis.loading import Loading
from headgate.simulator.server.apis.openai import OpenAI
from headgate.simulator.server.apis.operations import Operations
from headgate.simulator.server.apis.tokens import Tokens
from headgate.simulator.server.endpoint import Endpoint, Handler, no_such_path
from headgate.simulator.server.instance import Instance


class EngineApp:
    """Answers for an instance. A plain ASGI application."""

    def __init__(self, instance: Instance) -> None:
        openai = OpenAI(instance)
        operations = Operations(instance)
        loading = Loading(instance)
        tokens = Tokens(instance)
        side_channel = instance.transfers.side_channel
        table: list[tuple[str, str, Handler]] = [
            ("POST", "/v1/chat/completions", openai.chat),
            ("POST", "/v1/completions", openai.completion),
            ("GET", "/v1/models", operations.models),
            ("POST", "/v1/load_lora_adapter", loading.load),
            ("POST", "/v1/unload_lora_adapter", loading.unload),
            ("POST", "/tokenize", tokens.tokenize),
            ("POST", "/detokenize", tokens.detokenize),
            ("GET", "/health", operations.health),
            ("GET", "/metrics", operations.metrics),
            ("GET", "/load", operations.load),
            ("GET", "/version", operations.version),
            ("GET", "/kv_event_sources", operations.kv_event_sources),
            ("GET", "/admin/protocol", operations.protocol),
            ("POST", "/kv_transfer/blocks", side_channel.serve_blocks),
            ("POST", "/kv_transfer/rooms/{room:int}", side_channel.serve_room),
        ]
        # Starlette's Router alone: the middleware of a whole application would wrap the send of every token.
        self._router = Router(
            routes=[
                Route(path, Endpoint(method, handler, instance.settings)) for method, path, handler in table
            ],
            redirect_slashes=False,
            default=Endpoint("", no_such_path, instance.settings),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router(scope, receive, send)
