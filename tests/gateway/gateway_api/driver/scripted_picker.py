"""An endpoint picker whose answers a test gives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from headgate import extproc, loop_turns, rpc

DESTINATION = b"x-gateway-destination-endpoint"


class Stream:
    """One request, as the picker of a test sees it."""

    def __init__(self, picker: Picker, call: rpc.ServerCall) -> None:
        self.picker, self.call = picker, call
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.response: dict[bytes, bytes] = {}
        self.served: Any = None
        self.ended = ""
        picker.streams.append(self)

    def message(self, data: bytes) -> None:
        request = extproc.decode_request(data)
        message = request.message
        if request.is_response:
            assert isinstance(message, extproc.HttpHeaders)
            self.response = dict(message.headers)
            found = extproc.metadata(request.metadata, "envoy.lb") or {}
            self.served = found.get("x-gateway-destination-endpoint-served")
            self.reply(extproc.HeadersResponse(self.picker.response_change(self)), is_response=True)
        elif isinstance(message, extproc.HttpHeaders):
            self.headers = dict(message.headers)
            self.mode = request.protocol
            if message.end_of_stream:
                self.picker.answer(self)
        else:
            assert isinstance(message, extproc.HttpBody)
            self.body += message.body
            if message.end_of_stream:
                self.picker.answer(self)

    def reply(self, reply: Any, *, is_response: bool = False) -> None:
        self.call.send(extproc.encode_response(extproc.ProcessingResponse(reply, is_response=is_response)))

    def pick(self, *addresses: str, body: bytes | None = None, **headers: str) -> None:
        """Answers as pickers do in the mode FULL_DUPLEX_STREAMED."""
        named = extproc.SetHeader(DESTINATION, ",".join(addresses).encode())
        more = [extproc.SetHeader(name.encode(), value.encode()) for name, value in headers.items()]
        self.reply(extproc.HeadersResponse(extproc.Mutation([named, *more]), clear_route_cache=True))
        body = self.body if body is None else body
        for at in range(0, len(body), 10):
            piece = extproc.StreamedBody(body[at : at + 10], end_of_stream=at + 10 >= len(body))
            self.reply(extproc.BodyResponse(streamed=piece))

    def half_closed(self) -> None:
        self.ended = "half_closed"
        self.call.finish()

    def cancelled(self) -> None:
        self.ended = "cancelled"


class Picker:
    """A picker whose answers a test gives."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: list[Stream] = []
        self.answer: Callable[[Stream], None] = lambda stream: None
        self.response_change: Callable[[Stream], extproc.Mutation | None] = lambda stream: None

    async def start(self) -> None:
        services = {extproc.PATH: lambda call: Stream(self, call)}
        self.server = rpc.Server(services, loop_turns.Turns(asyncio.get_running_loop()), rpc.Limits())
        await self.server.listen("127.0.0.1", self.port)

    async def stop(self) -> None:
        await self.server.close()


def at(endpoint: Any) -> str:
    return f"127.0.0.1:{endpoint.port}"
