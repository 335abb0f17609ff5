"""Whatever a proxy sends, in whatever order: nothing breaks, and nothing is left in the end."""

import asyncio
import random

from hypothesis import given, settings
from hypothesis import strategies as st
from picker_world import OBJECTIVES, World, completion, model, pod, pool

from headgate import extproc
from headgate.dataplane.records.recorder import Recorder
from headgate.picker.settings import Choices, PickerSettings, PoolNames
from headgate.picker.shell import Shell
from headgate.telemetry import Registry

REQUEST, RESPONSE = False, True
MODES = (extproc.FULL_DUPLEX_STREAMED, extproc.BUFFERED, extproc.STREAMED, extproc.NONE)
BODY = completion(stream=True)
EVENT = b'data: {"model":"target","choices":[]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n'
SUBSETS = ([], ["192.168.1.2:8000"], ["192.168.1.9"], "192.168.1.1, 192.168.1.3")


class Call:
    """Notes what is sent; nothing may be sent once it is finished."""

    def __init__(self):
        self.replies, self.is_finished, self.is_gone = [], False, False

    def send(self, message):
        assert not self.is_finished
        self.replies.append(extproc.decode_response(message))

    def finish(self, status=0, message=""):
        assert not self.is_finished
        self.is_finished = True


def metadata(subset=None, served=None):
    found = {}
    if subset is not None:
        found["envoy.lb.subset_hint"] = {"x-gateway-destination-endpoint-subset": subset}
    if served is not None:
        found["envoy.lb"] = {"x-gateway-destination-endpoint-served": served}
    return extproc.encode_metadata(found)


protocols = st.none() | st.builds(extproc.Protocol, st.sampled_from(MODES), st.sampled_from(MODES))
parts = st.sampled_from(
    (b"", BODY, BODY[:20], BODY[20:], EVENT, EVENT[:9], EVENT[9:], USAGE, b"{}", b"\0" * 99)
)
request_headers = st.builds(
    lambda path, ends, name: extproc.HttpHeaders(
        [(b":path", path), (b"x-llm-d-inference-objective", name)], end_of_stream=ends
    ),
    st.sampled_from((b"/v1/completions", b"/anything", b"/vllm.grpc.engine.VllmEngine/Generate")),
    st.booleans(),
    st.sampled_from((b"my-model", b"batch", b"nothing")),
)
response_headers = st.builds(
    lambda status, kind, ends: extproc.HttpHeaders(
        [(b":status", status), (b"content-type", kind)], end_of_stream=ends
    ),
    st.sampled_from((b"200", b"404", b"429", b"500", b"503", b"x", b"")),
    st.sampled_from((b"text/event-stream", b"application/json", b"application/grpc")),
    st.booleans(),
)
bodies = st.builds(extproc.HttpBody, parts, st.booleans())
trailers = st.builds(extproc.HttpTrailers)
messages = st.one_of(
    st.builds(
        extproc.ProcessingRequest,
        request_headers | bodies | trailers,
        st.just(REQUEST),
        st.sampled_from((None, *SUBSETS)).map(metadata),
        protocol=protocols,
    ),
    st.builds(
        extproc.ProcessingRequest,
        response_headers | bodies | trailers,
        st.just(RESPONSE),
        st.sampled_from((None, "192.168.1.1:8000", "192.168.1.3:8000", "10.0.0.1:1")).map(
            lambda served: metadata(served=served)
        ),
    ),
)
usual = st.builds(
    lambda head, protocol, body, answer, more: [
        extproc.ProcessingRequest(head, protocol=protocol),
        extproc.ProcessingRequest(extproc.HttpBody(body, end_of_stream=True)),
        extproc.ProcessingRequest(answer, RESPONSE),
        *(extproc.ProcessingRequest(each, RESPONSE) for each in more),
    ],
    request_headers,
    protocols,
    st.sampled_from((BODY, b"{}", b"x")),
    response_headers,
    st.lists(bodies | trailers, max_size=4),
)
events = st.one_of(
    messages.map(lambda message: ("message", message)),
    st.sampled_from((("half_closed", None), ("cancelled", None), ("sweep", None), ("nonsense", None))),
)
histories = st.lists(events, max_size=12) | usual.map(lambda sent: [("message", each) for each in sent])


class Loop(asyncio.SelectorEventLoop):
    def __init__(self):
        super().__init__()
        self.now = 1000.0

    def time(self):
        return self.now


@settings(max_examples=200)
@given(st.lists(histories, min_size=1, max_size=3), st.integers(0, 2), st.randoms(use_true_random=False))
def test_nothing_breaks_and_nothing_is_left(streams, fallbacks, rng):
    """Several streams, whose events alternate; those that are not over in the end are cancelled."""
    loop = Loop()
    choices = Choices(fallbacks=fallbacks, max_body_bytes=1000)
    chosen = PickerSettings(pools=PoolNames(names=("pool",)), choices=choices)
    shell = Shell(chosen, Recorder(Registry(), None), loop, random.Random(1))
    try:
        pods = [pod(number) for number in (1, 2, 3)]
        World(shell, 0, Registry()).apply(pool(), model("my-model", target=1), *OBJECTIVES, *pods)
        play(shell, loop, streams, rng)
        assert not shell.streams
        assert shell.bodies.held == 0
        assert all(load.requests == 0 for load in shell.plane.ledger.loads())
    finally:
        loop.run_until_complete(shell.close())
        loop.close()


def play(shell, loop, streams, rng):
    """The events of each stream in their order, those of different streams in any order."""
    opened = [(call := Call(), shell.open(call), list(history)) for history in streams]
    while left := [each for each in opened if each[2]]:
        call, stream, history = rng.choice(left)
        kind, message = history.pop(0)
        loop.now += 0.01
        if call.is_gone:
            continue
        if kind == "message":
            stream.message(extproc.encode_request(message))
        elif kind == "nonsense":
            stream.message(b"\x0a\xff")
        elif kind == "sweep":
            stream.sweep(loop.now)
        elif not call.is_finished:
            getattr(stream, kind)()
            call.is_gone = True
        if stream.life is not None:
            stream.life.validate()
            assert stream.life.account.outcome != "internal_error"
        assert sum(map(ends_request, call.replies)) <= 1
    for call, stream, _ in opened:
        if not (call.is_finished or call.is_gone):
            stream.cancelled()


def ends_request(found):
    """Whether a reply ends the body of the request."""
    part = found.reply.streamed if isinstance(found.reply, extproc.BodyResponse) else None
    return part is not None and part.end_of_stream and not found.is_response
