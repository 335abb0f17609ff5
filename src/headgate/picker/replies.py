"""The messages that tell a proxy where a request goes, and what of its body it sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headgate import extproc
from headgate.requests.bodies.pieces import Pieces

DESTINATION: Final = b"x-gateway-destination-endpoint"
"""The header, and the key of the metadata, with the picked endpoints in the order in which to try them."""
NAMESPACE: Final = "envoy.lb"
SCORES: Final = "x-gateway-destination-endpoint-scores"
PART_BYTES: Final = 62_000
"""The longest part of a body in one message; proxies limit a message to 64 KiB."""
_MAX_CACHED: Final = 10_000

_metadata: dict[bytes, bytes] = {}


def destination_metadata(addresses: bytes) -> bytes:
    """The dynamic metadata with the picked endpoints; cached, as there are few."""
    found = _metadata.get(addresses)
    if found is None:
        if len(_metadata) >= _MAX_CACHED:
            _metadata.clear()
        found = extproc.encode_struct({NAMESPACE: {DESTINATION.decode(): addresses.decode("latin-1")}})
        _metadata[addresses] = found
    return found


def metadata_with_scores(addresses: bytes, scores: Mapping[str, float]) -> bytes:
    """The same with the scores of all endpoints, by their addresses."""
    return extproc.encode_struct(
        {NAMESPACE: {DESTINATION.decode(): addresses.decode("latin-1"), SCORES: dict(scores)}}
    )


def picked_without_body(mutation: extproc.Mutation, metadata: bytes) -> bytes:
    """The reply to the headers of a request without a body, or whose body is not sent here."""
    reply = extproc.HeadersResponse(mutation, clear_route_cache=True)
    return extproc.encode_response(extproc.ProcessingResponse(reply, dynamic_metadata=metadata))


def headers_before_body() -> bytes:
    """The reply to the headers of a request whose body is sent only after it."""
    reply = extproc.HeadersResponse(clear_route_cache=True)
    return extproc.encode_response(extproc.ProcessingResponse(reply))


def picked_buffered(mutation: extproc.Mutation, metadata: bytes, body: bytes | Pieces) -> bytes:
    """The reply to a whole body, after that to the headers."""
    whole = body if isinstance(body, bytes) else bytes(body)
    reply = extproc.BodyResponse(mutation, whole, clear_route_cache=True)
    return extproc.encode_response(extproc.ProcessingResponse(reply, dynamic_metadata=metadata))


def routed_buffered(mutation: extproc.Mutation) -> bytes:
    """The reply to a whole body that stays as it is, while headers change by which it is routed."""
    reply = extproc.BodyResponse(mutation, clear_route_cache=True)
    return extproc.encode_response(extproc.ProcessingResponse(reply))


def streamed(body: bytes | Pieces, *, is_response: bool, is_end: bool) -> Sequence[bytes]:
    """A body, or the next bytes of it, in messages; the last one says whether the body ends."""
    encode = extproc.encode_streamed
    if isinstance(body, bytes) and len(body) <= PART_BYTES:
        return (encode(body, is_response=is_response, is_end=is_end),) if body or is_end else ()
    *parts, last = list(_parts(body)) or [b""]
    return [
        *(encode(part, is_response=is_response, is_end=False) for part in parts),
        encode(last, is_response=is_response, is_end=is_end),
    ]


def _parts(body: bytes | Pieces) -> Iterator[bytes]:
    for piece in (body,) if isinstance(body, bytes) else body.buffers:
        if len(piece) <= PART_BYTES:
            if piece:
                yield bytes(piece)
            continue
        view = memoryview(piece)
        for at in range(0, len(piece), PART_BYTES):
            yield bytes(view[at : at + PART_BYTES])


def headers(mutation: extproc.Mutation | None, *, is_response: bool) -> bytes:
    """The reply to headers that only change in this way."""
    reply = extproc.HeadersResponse(mutation)
    return extproc.encode_response(extproc.ProcessingResponse(reply, is_response))


def trailers(*, is_response: bool) -> bytes:
    """The reply to trailers, which stay as they are."""
    return extproc.encode_response(extproc.ProcessingResponse(extproc.TrailersResponse(), is_response))


def changed(body: bytes | None, mutation: extproc.Mutation | None = None) -> bytes:
    """The reply to a part of a response in the modes STREAMED and BUFFERED: None leaves it as it is."""
    if body == b"":
        reply = extproc.BodyResponse(mutation, clear_body=True)
    else:
        reply = extproc.BodyResponse(mutation, body)
    return extproc.encode_response(extproc.ProcessingResponse(reply, is_response=True))


def immediate(response: extproc.ImmediateResponse) -> bytes:
    return extproc.encode_response(extproc.ProcessingResponse(response))
