"""Envoy's external processing protocol (`envoy.service.ext_proc.v3`) as values and bytes.

Given the bytes of a message, it returns a `ProcessingRequest` or `ProcessingResponse`; given such a value, it
returns the bytes. Only the fields that pickers and gateways use are decoded; others are skipped.
"""

from headgate.extproc.decoding import MAX_HEADERS, decode_request, decode_response
from headgate.extproc.encoding import encode_request, encode_response, encode_streamed
from headgate.extproc.messages import (
    APPEND,
    BUFFERED,
    BUFFERED_PARTIAL,
    FULL_DUPLEX_STREAMED,
    GRPC,
    NONE,
    OVERWRITE,
    STREAMED,
    BodyResponse,
    HeadersResponse,
    HttpBody,
    HttpHeaders,
    HttpTrailers,
    ImmediateResponse,
    Mutation,
    ProcessingRequest,
    ProcessingResponse,
    Protocol,
    SetHeader,
    StreamedBody,
    TrailersResponse,
)
from headgate.extproc.structs import attributes, encode_metadata, encode_struct, metadata

PATH = "/envoy.service.ext_proc.v3.ExternalProcessor/Process"
"""The path of the bidirectional stream."""
SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"

__all__ = [
    "APPEND",
    "BUFFERED",
    "BUFFERED_PARTIAL",
    "FULL_DUPLEX_STREAMED",
    "GRPC",
    "MAX_HEADERS",
    "NONE",
    "OVERWRITE",
    "PATH",
    "SERVICE",
    "STREAMED",
    "BodyResponse",
    "HeadersResponse",
    "HttpBody",
    "HttpHeaders",
    "HttpTrailers",
    "ImmediateResponse",
    "Mutation",
    "ProcessingRequest",
    "ProcessingResponse",
    "Protocol",
    "SetHeader",
    "StreamedBody",
    "TrailersResponse",
    "attributes",
    "decode_request",
    "decode_response",
    "encode_metadata",
    "encode_request",
    "encode_response",
    "encode_streamed",
    "encode_struct",
    "metadata",
]
