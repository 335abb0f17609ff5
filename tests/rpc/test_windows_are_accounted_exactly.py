"""Flow control in both directions, against h2's account of it: no byte too many, and none is lost."""

from h2 import events
from h2_sides import HEADERS, framed, greeted
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headgate.http2 import frames
from headgate.rpc.limits import Limits

LIMITS = Limits(
    call_window_bytes=70_000,
    connection_window_bytes=150_000,
    high_water_bytes=20_000,
    max_message_bytes=100_000,
    max_held_bytes=400_000,
)
sizes = st.sampled_from([0, 1, 100, 16_379, 16_380, 40_000])
picks = st.integers(0, 1000)


class Windows(RuleBasedStateMachine):
    """A server of ours sends and receives; the client of h2 raises if a window is exceeded."""

    def __init__(self) -> None:
        super().__init__()
        self.server, self.client = greeted(LIMITS)
        self.sent: dict[int, bytearray] = {}
        self.arrived: dict[int, bytearray] = {}
        self.asked: dict[int, bytearray] = {}
        self.unread: dict[int, int] = {}
        """What the client has not given its window back for."""
        self.finished: set[int] = set()

    def exchange(self) -> None:
        """Everything that is on the way arrives."""
        while True:
            to_server, to_client = self.client.data_to_send(), self.server.http2.take()
            if not to_server and not to_client:
                break
            self.server.feed(to_server)
            for event in self.client.receive_data(to_client):
                if isinstance(event, events.DataReceived):
                    if event.stream_id in self.arrived:
                        self.arrived[event.stream_id] += event.data
                    self.unread[event.stream_id] += event.flow_controlled_length
        http2 = self.server.http2
        assert http2.sender.window == self.client.inbound_flow_control_window
        assert self.server.receiver._window == self.client.outbound_flow_control_window
        for number, stream in http2.streams.items():
            both = min(http2.sender.window, stream.send_window)
            assert both == self.client.remote_flow_control_window(number)
            both = min(self.server.receiver._window, stream.receive_window)
            assert both == self.client.local_flow_control_window(number)

    def pick(self, number: int) -> int | None:
        live = sorted(self.sent.keys() - self.finished)
        return live[number % len(live)] if live else None

    @precondition(lambda self: len(self.sent) < 6)
    @rule()
    def open(self) -> None:
        number = self.client.get_next_available_stream_id()
        self.client.send_headers(number, HEADERS)
        self.sent[number], self.arrived[number], self.asked[number] = bytearray(), bytearray(), bytearray()
        self.unread[number] = 0
        self.exchange()
        stream = self.server.http2.streams[number]
        self.server.http2.sender.control(frames.frame(frames.HEADERS, stream.id, b"\x88", 4))

    @rule(number=picks, size=sizes, at_once=st.booleans())
    def send(self, number: int, size: int, at_once: bool) -> None:
        if (chosen := self.pick(number)) is None:
            return
        message = bytes([len(self.sent[chosen]) % 251]) * size
        stream = self.server.http2.streams[chosen]
        held = self.server.held.used_bytes
        if self.server.http2.send(stream, message, framed(message)[:5]):
            self.sent[chosen] += framed(message)
        else:
            assert held + size + 5 > LIMITS.max_held_bytes
        if at_once:
            self.exchange()

    @rule(number=picks)
    def finish(self, number: int) -> None:
        if (chosen := self.pick(number)) is not None:
            trailers = frames.frame(frames.HEADERS, chosen, b"\x00\x0bgrpc-status\x010", 5)
            self.server.http2.end(self.server.http2.streams[chosen], trailers)
            self.server.calls[chosen].reader.drop()
            self.finished.add(chosen)

    @rule(number=picks)
    def reset(self, number: int) -> None:
        if (chosen := self.pick(number)) is not None:
            self.exchange()
            if chosen in self.server.http2.streams:
                self.client.reset_stream(chosen, 8)
                self.exchange()
            for each in (self.sent, self.arrived, self.asked):
                del each[chosen]

    @rule(number=picks, size=sizes)
    def ask(self, number: int, size: int) -> None:
        """The client sends as much of a message as its windows take."""
        if (chosen := self.pick(number)) is None:
            return
        self.exchange()
        written = framed(b"q" * size)
        if self.client.local_flow_control_window(chosen) >= len(written):
            for at in range(0, len(written), 16_384):
                self.client.send_data(chosen, written[at : at + 16_384])
            self.asked[chosen] += written
            self.exchange()

    @rule(number=picks, share=st.sampled_from([1, 2, 7]))
    def read(self, number: int, share: int) -> None:
        """The client gives a part of its windows back."""
        self.exchange()
        known = sorted(each for each, size in self.unread.items() if size)
        if known:
            chosen = known[number % len(known)]
            size = max(self.unread[chosen] // share, 1)
            self.unread[chosen] -= size
            self.client.acknowledge_received_data(size, chosen)

    @rule(value=st.sampled_from([0, 1, 1000, 65_535, 200_000]))
    def change_setting(self, value: int) -> None:
        self.client.update_settings({4: value})
        self.exchange()

    @rule()
    def pause_socket(self) -> None:
        self.server.http2.sender.may_write = False

    @rule()
    def resume_socket(self) -> None:
        self.server.http2.sender.may_write = True
        self.exchange()

    @rule(number=picks, is_paused=st.booleans())
    def pause_or_resume(self, number: int, is_paused: bool) -> None:
        if (chosen := self.pick(number)) is not None:
            stream = self.server.http2.streams[chosen]
            (self.server.http2.pause if is_paused else self.server.http2.resume)(stream)

    @invariant()
    def bytes_are_where_they_should_be(self) -> None:
        http2 = self.server.http2
        queued = 0
        for stream in http2.streams.values():
            parts = sum(map(len, stream.queue or ()))
            assert parts == stream.queued_bytes
            assert (stream.queue is not None) == (stream.id in http2.sender.blocked)
            queued += parts
        incomplete = sum(call.reader.held_bytes for call in self.server.calls.values())
        assert self.server.held.used_bytes == queued + incomplete
        for number, arrived in self.arrived.items():
            assert self.sent[number].startswith(arrived)

    def teardown(self) -> None:
        """With windows that are wide enough, everything arrives."""
        self.server.http2.sender.may_write = True
        self.client.update_settings({4: 1 << 24})
        self.client.increment_flow_control_window(1 << 24)
        self.exchange()
        assert self.arrived == self.sent
        for number, asked in self.asked.items():
            heard = [event[1] for event in self.server.calls[number].heard if event[0] == "message"]
            assert b"".join(map(framed, heard)) == asked
        for stream in [*self.server.http2.streams.values()]:
            assert self.server.receiver._window > 0
            self.server.http2.cancel(stream, 8)
            self.server.calls[stream.id].reader.drop()
        assert self.server.held.used_bytes == 0
        assert not self.server.http2.streams


TestWindows = Windows.TestCase
TestWindows.settings = settings(stateful_step_count=30)
