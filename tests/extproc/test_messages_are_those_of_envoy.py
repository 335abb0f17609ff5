"""Messages are encoded and decoded as by the classes that protobuf generates from Envoy's definitions."""

import struct

import msgspec
import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from headgate import extproc
from headgate.protobuf_wire import WireError, delimited, number_field, varint

names = st.binary(max_size=20).map(lambda data: data.hex().encode())
values = st.binary(max_size=300)
headers = st.lists(st.tuples(names, values), max_size=20)
bodies = st.binary(max_size=40_000)
flags = st.booleans()
modes = st.integers(0, 5)
json = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)
structs = st.dictionaries(st.text(max_size=10), json, max_size=4)
messages = (
    st.builds(extproc.HttpHeaders, headers, flags)
    | st.builds(extproc.HttpBody, bodies, flags, flags)
    | st.builds(extproc.HttpTrailers, headers)
)
requests = st.builds(
    extproc.ProcessingRequest,
    messages,
    flags,
    st.dictionaries(st.text(max_size=10), structs, max_size=3).map(extproc.encode_metadata),
    protocol=st.none() | st.builds(extproc.Protocol, modes, modes, flags),
    observability_mode=flags,
)
mutations = st.builds(
    extproc.Mutation,
    st.lists(st.builds(extproc.SetHeader, names, values, st.integers(0, 3)), max_size=5),
    st.lists(names, max_size=5),
)
streamed = st.builds(extproc.StreamedBody, bodies, flags, flags)
body_replies = (
    st.builds(extproc.BodyResponse, mutations, clear_route_cache=flags)
    | st.builds(extproc.BodyResponse, mutations, bodies, clear_route_cache=flags)
    | st.builds(extproc.BodyResponse, mutations, clear_body=st.just(True))
    | st.builds(extproc.BodyResponse, mutations, streamed=streamed, clear_route_cache=flags)
)
replies = (
    body_replies
    | st.builds(extproc.HeadersResponse, mutations, flags, st.none() | bodies)
    | st.builds(extproc.TrailersResponse, mutations)
    | st.builds(
        extproc.ImmediateResponse,
        st.integers(100, 599),
        mutations,
        bodies,
        st.none() | st.integers(0, 16),
        st.text(max_size=20),
    )
)
responses = st.builds(extproc.ProcessingResponse, replies, flags, structs.map(extproc.encode_struct))


def header_map(found):
    return [(each.key.encode(), each.raw_value or each.value.encode()) for each in found.headers]


def read_request(found):
    """A message of the generated class, as ours."""
    kind = found.WhichOneof("request")
    message = getattr(found, kind)
    match kind.partition("_")[2]:
        case "headers":
            ours = extproc.HttpHeaders(header_map(message.headers), message.end_of_stream)
        case "body":
            ours = extproc.HttpBody(
                message.body, message.end_of_stream, message.end_of_stream_without_message
            )
        case "trailers":
            ours = extproc.HttpTrailers(header_map(message.trailers))
    protocol = None
    if found.HasField("protocol_config"):
        config = found.protocol_config
        protocol = extproc.Protocol(
            config.request_body_mode,
            config.response_body_mode,
            config.send_body_without_waiting_for_header_response,
        )
    return ours, kind.startswith("response"), protocol, found.observability_mode


def read_mutation(found):
    set_headers = [
        extproc.SetHeader(each.header.key.encode(), each.header.raw_value, each.append_action)
        for each in found.set_headers
    ]
    return extproc.Mutation(set_headers, [each.encode() for each in found.remove_headers])


def read_response(found):
    kind = found.WhichOneof("response")
    message = getattr(found, kind)
    if kind == "immediate_response":
        return extproc.ImmediateResponse(
            message.status.code,
            read_mutation(message.headers),
            message.body,
            message.grpc_status.status if message.HasField("grpc_status") else None,
            message.details,
        )
    if kind.endswith("trailers"):
        return extproc.TrailersResponse(read_mutation(message.header_mutation))
    common = message.response
    mutation = read_mutation(common.header_mutation)
    which = common.body_mutation.WhichOneof("mutation")
    body = common.body_mutation.body if which == "body" else None
    if kind.endswith("headers"):
        assert common.status == (body is not None)
        return extproc.HeadersResponse(mutation, common.clear_route_cache, body)
    part = None
    if which == "streamed_response":
        found = common.body_mutation.streamed_response
        part = extproc.StreamedBody(found.body, found.end_of_stream, found.end_of_stream_without_message)
    clears = which == "clear_body" and common.body_mutation.clear_body
    return extproc.BodyResponse(mutation, body, clears, part, common.clear_route_cache)


def without_metadata(request):
    """Maps have no order; what is in them is compared by a test of its own."""
    return msgspec.structs.replace(request, metadata=b"")


@given(requests)
def test_requests_are_what_protobuf_reads(request):
    """Each field arrives there, and comes back from there."""
    encoded = extproc.encode_request(request)
    theirs = pb.ProcessingRequest.FromString(encoded)
    assert read_request(theirs) == (
        request.message,
        request.is_response,
        request.protocol,
        request.observability_mode,
    )
    assert without_metadata(extproc.decode_request(theirs.SerializeToString())) == without_metadata(request)
    assert extproc.decode_request(encoded) == request


@given(responses)
def test_responses_are_what_protobuf_reads(response):
    """Each field arrives there, and comes back from there. Their immediate responses name no direction."""
    if isinstance(response.reply, extproc.ImmediateResponse):
        response.is_response = False
    encoded = extproc.encode_response(response)
    theirs = pb.ProcessingResponse.FromString(encoded)
    assert read_response(theirs) == response.reply
    assert theirs.dynamic_metadata.SerializeToString(deterministic=True) == (
        type(theirs.dynamic_metadata)
        .FromString(response.dynamic_metadata)
        .SerializeToString(deterministic=True)
    )
    assert extproc.decode_response(encoded) == response
    again = extproc.decode_response(theirs.SerializeToString())
    assert (again.reply, again.is_response) == (response.reply, response.is_response)


@given(bodies, flags, flags)
def test_parts_of_bodies_have_a_way_of_their_own(body, is_response, is_end):
    """The most frequent message is encoded without values between, to the same bytes."""
    reply = extproc.BodyResponse(streamed=extproc.StreamedBody(body, is_end))
    encoded = extproc.encode_streamed(body, is_response=is_response, is_end=is_end)
    assert encoded == extproc.encode_response(extproc.ProcessingResponse(reply, is_response))


@given(st.dictionaries(st.text(max_size=10), structs, max_size=3), st.text(max_size=10))
def test_metadata_is_json(namespaces, other):
    """As the generated classes convert it; another namespace has none."""
    encoded = extproc.encode_metadata(namespaces)
    theirs = pb.ProcessingRequest.FromString(delimited(8, encoded)).metadata_context
    for name, content in namespaces.items():
        assert json_format.MessageToDict(theirs.filter_metadata[name]) == content
        assert extproc.metadata(encoded, name) == content
        assert extproc.metadata(theirs.SerializeToString(), name) == content
    assert extproc.metadata(encoded, other) == namespaces.get(other)


@given(st.dictionaries(st.text(min_size=1, max_size=10), json, max_size=3))
def test_attributes_are_joined(content):
    """Proxies put them into one map of structs, by the name of the filter."""
    theirs = pb.ProcessingRequest(request_body=pb.HttpBody())
    theirs.attributes["envoy.filters.http.ext_proc"].update(content)
    found = extproc.decode_request(theirs.SerializeToString())
    assert extproc.attributes(found.attributes) == content
    again = pb.ProcessingRequest.FromString(extproc.encode_request(found))
    assert json_format.MessageToDict(again.attributes["envoy.filters.http.ext_proc"]) == content


def test_text_values_of_headers_are_read():
    """Older proxies send `value`, newer ones `raw_value`; that one counts if there are both."""
    theirs = pb.ProcessingRequest()
    for name, value, raw in (("a", "1", b""), ("b", "", b"2"), ("c", "3", b"4")):
        added = theirs.request_headers.headers.headers.add()
        added.key, added.value, added.raw_value = name, value, raw
    found = extproc.decode_request(theirs.SerializeToString())
    assert found.message.headers == [(b"a", b"1"), (b"b", b"2"), (b"c", b"4")]


@given(st.binary(max_size=200))
def test_other_bytes_are_refused(data):
    """With one kind of error, whatever they are."""
    for decode in (extproc.decode_request, extproc.decode_response):
        try:
            decode(data)
        except WireError as error:
            assert str(error)


@given(requests, st.data())
def test_what_is_cut_is_refused(request, data):
    """A message that ends early, or has a byte less inside, is never read as another one's bytes."""
    encoded = extproc.encode_request(request)
    cut = encoded[: data.draw(st.integers(0, len(encoded) - 1))]
    try:
        found = extproc.decode_request(cut)
    except WireError:
        return
    # What can be left out is what stands behind the message itself.
    assert found.message == request.message


@given(requests, st.integers(12, 1000), st.binary(max_size=50))
def test_unknown_fields_are_skipped(request, number, content):
    """Wherever they stand, and whatever their type."""
    encoded = extproc.encode_request(request)
    fixed = varint(number << 3 | 1) + struct.pack("<d", 1.0), varint(number << 3 | 5) + b"abcd"
    for field in (delimited(number, content), number_field(number, 300), *fixed):
        assert extproc.decode_request(field + encoded) == request
        assert extproc.decode_request(encoded + field) == request


def test_headers_are_bounded():
    """An empty header takes two bytes."""
    many = delimited(2, delimited(1, delimited(1, b"") * (extproc.MAX_HEADERS + 1)))
    with pytest.raises(WireError, match="more than 1000 headers"):
        extproc.decode_request(many)


def test_structs_are_bounded():
    """In depth, and in the number of their values."""
    deep = extproc.encode_struct({})
    value = {}
    for _ in range(40):
        value = {"a": value}
    deep = extproc.encode_metadata({"n": value})
    with pytest.raises(WireError, match="nested deeper than 16"):
        extproc.metadata(deep, "n")
    wide = extproc.encode_metadata({"n": {"a": [None] * 10_001}})
    with pytest.raises(WireError, match="more than 10000 values"):
        extproc.metadata(wide, "n")
