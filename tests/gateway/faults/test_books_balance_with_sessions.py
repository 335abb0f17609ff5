"""The same stories with WebSockets: however and whenever one ends, before or after it opened, it is settled
once, and nothing of it is left."""

from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from request_stories import Stories, Transport

from headgate.gateway import listener
from headgate.gateway.websocket import connection
from headgate.gateway.websocket.exchange import SessionExchange

pytestmark = [pytest.mark.usefixtures("endless_turns"), pytest.mark.counts_calls]

SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n"
FRAMES = (b"\x81\x05hello", b"\x81\x7e\x01\x00" + b"x" * 200, b"\x88\x02\x03\xe8", b"\x81")
EARLY = b"x" * 70_000


class SessionStories(Stories):
    """Clients that open sessions beside those that ask."""

    @initialize(
        attempts=st.sampled_from((None, 0, 2)),
        timeout_s=st.sampled_from((None, 5.0)),
        room=st.sampled_from((1, 2, None)),
        evicts=st.booleans(),
    )
    def begin(self, attempts, timeout_s, room, evicts):
        super().begin(attempts, timeout_s, None, room, evicts, None)

        def noted(*arguments):
            self.exchanges.append(SessionExchange(*arguments))
            return self.exchanges[-1]

        self.patches.append(mock.patch.object(connection, "SessionExchange", noted))
        self.patches[-1].start()

    def _sessions(self):
        return [each for each in self._open_clients() if self._is_session(each)]

    def _is_session(self, client):
        return isinstance(client.protocol, connection.WebSocketConnection)

    @rule(model=st.sampled_from("mmmx"), more=st.sampled_from((b"", b"\x81\x01a")))
    def a_client_opens_a_session(self, model, more):
        client = Transport(self.loop, listener.ClientConnection(self.shell.services, self.shell.clients))
        self.clients.append(client)
        client.protocol.data_received(
            b"GET /v1/realtime?model=%b HTTP/1.1\r\nhost: g\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n%b"
            % (model.encode(), more)
        )

    @precondition(lambda self: self._sessions())
    @rule(data=st.data(), frame=st.sampled_from((*FRAMES, EARLY)))
    def a_client_sends_frames(self, data, frame):
        client = data.draw(st.sampled_from(self._sessions()))
        if not client.is_paused:
            client.protocol.data_received(frame)

    @precondition(lambda self: self._asked())
    @rule(data=st.data())
    def an_endpoint_agrees(self, data):
        transport = data.draw(st.sampled_from(self._asked()))
        if transport not in self.to_send:
            transport.written = b""
            transport.protocol.data_received(SWITCHING)

    @precondition(lambda self: self.connecting or self._asked())
    @rule()
    def all_that_can_open_do(self):
        """What is under way to endpoints goes well."""
        while self.connecting:
            self.a_connection_is_answered(True)
            self.loop.settle()
        for transport in self._asked():
            if b"upgrade: websocket" in transport.written and transport not in self.to_send:
                transport.written = b""
                transport.protocol.data_received(SWITCHING)

    @precondition(lambda self: self._open())
    @rule(data=st.data(), frame=st.sampled_from(FRAMES))
    def an_endpoint_sends_frames(self, data, frame):
        """Or closes."""
        upstream = data.draw(st.sampled_from(self._open()))
        if not upstream.is_paused:
            upstream.protocol.data_received(frame)

    @precondition(lambda self: self._open())
    @rule(data=st.data())
    def an_endpoint_ends_a_session(self, data):
        data.draw(st.sampled_from(self._open())).lose()

    def _open(self):
        """The endpoints' connections of open sessions."""
        opened = {
            each._upstream for each in self.exchanges if isinstance(each, SessionExchange) and each.is_open
        }
        return [each for each in self.upstreams if each.protocol in opened and not each.is_over]

    @invariant()
    def sessions_have_a_place_and_an_end(self):
        self.loop.settle()
        assert {each.protocol for each in self._open_clients()} >= self.shell.clients.all
        for each in self._sessions():
            assert each.protocol in self.shell.clients.all
        running = sum(isinstance(each, SessionExchange) and not each.life.is_over for each in self.exchanges)
        assert running == len([each for each in self._sessions() if each.protocol.exchange is not None])


TestSessionStories = SessionStories.TestCase
TestSessionStories.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
