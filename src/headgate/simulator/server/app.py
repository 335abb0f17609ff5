"""The ASGI application: the table of paths."""

from collections.abc import Callable

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from headgate.simulator.server.answers.messages import error_body
from headgate.simulator.server.apis.admin import Admin
from headgate.simulator.server.apis.anthropic import Anthropic
from headgate.simulator.server.apis.loading import Loading
from headgate.simulator.server.apis.openai import OpenAI
from headgate.simulator.server.apis.operations import Operations
from headgate.simulator.server.apis.sleeping import Sleeping
from headgate.simulator.server.apis.tokens import Tokens
from headgate.simulator.server.endpoint import Endpoint, Handler, no_such_path
from headgate.simulator.server.errors import ApiError
from headgate.simulator.server.instance import Instance


class EngineApp:
    """Answers for an instance. A plain ASGI application."""

    def __init__(self, instance: Instance) -> None:
        openai = OpenAI(instance)
        operations = Operations(instance)
        loading = Loading(instance)
        tokens = Tokens(instance)
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
            ("GET", "/v1/models", operations.models),
            ("POST", "/v1/load_lora_adapter", loading.load),
            ("POST", "/v1/unload_lora_adapter", loading.unload),
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
        # Starlette's Router alone: the middleware of a whole application would wrap the send of every token.
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
            # What changes and tells failures works in all of them.
            + [
                Route("/admin/config", Endpoint("", admin.config, instance.settings)),
                Route("/admin/protocol", Endpoint("GET", admin.protocol, instance.settings)),
            ],
            redirect_slashes=False,
            default=Endpoint("", no_such_path, instance.settings),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router(scope, receive, send)


def _errors_of(path: str) -> Callable[[ApiError], bytes]:
    """Errors in the shape of the path's API."""
    return error_body if path.startswith("/v1/messages") else ApiError.body
