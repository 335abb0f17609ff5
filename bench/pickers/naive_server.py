"""A picker as one would write it first: grpc.aio, protobuf's classes, `json` for the model, round robin.

Runs in its own environment: `naive_server.py PORT ENGINE...`, each engine as host:port.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator

import grpc
from envoy.service.ext_proc.v3 import external_processor_pb2 as messages
from envoy.service.ext_proc.v3 import external_processor_pb2_grpc as services
from google.protobuf import struct_pb2

DESTINATION = "x-gateway-destination-endpoint"
MAX_PIECE = 62_000


class Picker(services.ExternalProcessorServicer):
    """Picks one engine after the other."""

    def __init__(self, engines: list[str]) -> None:
        self._engines = itertools.cycle(engines)

    async def Process(  # noqa: N802 - the name of the method
        self, request_iterator: AsyncIterator[messages.ProcessingRequest], context: grpc.aio.ServicerContext
    ) -> AsyncIterator[messages.ProcessingResponse]:
        body = bytearray()
        async for request in request_iterator:
            kind = request.WhichOneof("request")
            if kind == "request_headers" and request.request_headers.end_of_stream:
                yield self._picked()
            elif kind == "request_body":
                body += request.request_body.body
                if request.request_body.end_of_stream:
                    json.loads(body)["model"]
                    yield self._picked()
                    for piece in pieces(bytes(body)):
                        yield messages.ProcessingResponse(request_body=piece)
            elif kind == "response_headers":
                yield messages.ProcessingResponse(response_headers=messages.HeadersResponse())
            elif kind == "response_body":
                part = request.response_body
                for piece in pieces(part.body, ends=part.end_of_stream):
                    yield messages.ProcessingResponse(response_body=piece)
            elif kind == "response_trailers":
                yield messages.ProcessingResponse(response_trailers=messages.TrailersResponse())

    def _picked(self) -> messages.ProcessingResponse:
        engine = next(self._engines)
        response = messages.ProcessingResponse()
        common = response.request_headers.response
        common.clear_route_cache = True
        option = common.header_mutation.set_headers.add()
        option.header.key, option.header.raw_value = DESTINATION, engine.encode()
        found = struct_pb2.Struct()
        found[DESTINATION] = engine
        response.dynamic_metadata["envoy.lb"] = found
        return response


def pieces(body: bytes, *, ends: bool = True) -> list[messages.BodyResponse]:
    """A body in parts that fit into messages."""
    made = []
    for at in range(0, max(len(body), 1), MAX_PIECE):
        part = messages.BodyResponse()
        streamed = part.response.body_mutation.streamed_response
        streamed.body = body[at : at + MAX_PIECE]
        streamed.end_of_stream = ends and at + MAX_PIECE >= len(body)
        made.append(part)
    return made


async def main(port: str, engines: list[str]) -> None:
    server = grpc.aio.server()
    services.add_ExternalProcessorServicer_to_server(Picker(engines), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
