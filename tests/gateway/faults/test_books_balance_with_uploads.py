"""The same stories with long forms that are sent as they come: however and whenever one ends, it is settled
once, nothing of it is left, and no endpoint gets anything but its bytes in order."""

from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule
from request_stories import Stories, Transport

from headgate.gateway import listener
from headgate.gateway.upload_exchange import HELD_BYTES, UploadExchange

pytestmark = [pytest.mark.usefixtures("endless_turns"), pytest.mark.counts_calls]

MAX_BODIES = 4 * HELD_BYTES
SIZES = (HELD_BYTES + 1, 2 * HELD_BYTES, 5 * HELD_BYTES)
ENDS = (b"\r\n--X--\r\n", b"\r\n--X--\r\n", b"\r\n--X\r\n", b"\r\n--X: ?\r\n")
"""Two that are valid, one without an end, and one that is none."""


def form(number: int, model: str, size: int, end: bytes) -> bytes:
    """A form that no other is the beginning of."""
    return (
        b'--X\r\ncontent-disposition: form-data; name="n"\r\n\r\n%d\r\n'
        b'--X\r\ncontent-disposition: form-data; name="model"\r\n\r\n%b\r\n'
        b'--X\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n%b%b'
        % (number, model.encode(), b"a" * size, end)
    )


class UploadStories(Stories):
    """Clients that upload beside those that ask."""

    @initialize(
        attempts=st.sampled_from((None, 0, 2)),
        timeout_s=st.sampled_from((None, 5.0)),
        room=st.sampled_from((1, 2, None)),
        evicts=st.booleans(),
    )
    def begin(self, attempts, timeout_s, room, evicts):
        super().begin(attempts, timeout_s, None, room, evicts, None)
        story = self

        class Kind(type):
            def __call__(cls, *arguments):
                story.exchanges.append(UploadExchange(*arguments))
                return story.exchanges[-1]

            def __instancecheck__(cls, each):
                return isinstance(each, UploadExchange)

        self.patches.append(mock.patch.object(listener, "UploadExchange", Kind("Noted", (), {})))
        self.patches[-1].start()
        self.forms: list[bytes] = []
        self.to_upload: dict[Transport, bytes] = {}
        limits = {"clients_max_body_bytes": 6 * HELD_BYTES, "clients_max_bodies_bytes": MAX_BODIES}
        self.shell.change(self.shell.settings.replace(**limits))

    @rule(
        model=st.sampled_from("mmmmx"),
        size=st.sampled_from(SIZES),
        share=st.floats(0, 1),
        end=st.sampled_from(ENDS),
    )
    def a_client_uploads(self, model, size, share, end):
        client = Transport(self.loop, listener.ClientConnection(self.shell.services, self.shell.clients))
        self.clients.append(client)
        body = form(len(self.forms), model, size, end)
        self.forms.append(body)
        head = (
            b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: g\r\n"
            b"content-type: multipart/form-data; boundary=X\r\ncontent-length: %d\r\n\r\n" % len(body)
        )
        client.protocol.data_received(head)
        self.to_upload[client] = body
        self._upload(client, share)

    @precondition(lambda self: self._uploading())
    @rule(data=st.data(), share=st.floats(0, 1))
    def a_client_sends_more(self, data, share):
        self._upload(data.draw(st.sampled_from(self._uploading())), share)

    @precondition(lambda self: self._uploading())
    @rule()
    def all_clients_go_on(self):
        for client in self._uploading():
            self._upload(client, 0.5)

    def _uploading(self):
        """Those with more to send that are read."""
        return [each for each in self._open_clients() if self.to_upload.get(each) and not each.is_paused]

    def _upload(self, client, share):
        body = self.to_upload[client]
        size = len(body) if share > 0.9 else max(1, int(len(body) * share))
        self.to_upload[client] = body[size:]
        for at in range(0, size, HELD_BYTES):
            if client.is_over or client.is_paused:
                self.to_upload[client] = body[at:]
                return
            client.protocol.data_received(body[at : min(at + HELD_BYTES, size)])
            self.loop.settle()

    @precondition(lambda self: self.connecting or self._asked())
    @rule()
    def endpoints_read_all(self):
        while self.connecting:
            self.a_connection_is_answered(True)
            self.loop.settle()
        for each in self._asked():
            if each.is_unread:
                each.is_unread = False
                each.protocol.resume_writing()

    def a_client_asks_again(self, data, stream, size):
        """Not amid a form."""

    @invariant()
    def bodies_are_counted_as_they_are_held(self):
        self.loop.settle()
        held = sum(each.request.held_bytes for each in self.exchanges if not each.life.is_over)
        for client in self.clients:
            reader = client.protocol._reader
            held += 0 if reader._body.is_streamed else reader.body_bytes
            held += sum(request.held_bytes for request in client.protocol._ahead.requests)
        assert self.shell.services.bodies.held == held <= MAX_BODIES

    @invariant()
    def endpoints_get_the_bytes_of_one_form(self):
        self.loop.settle()
        for each in self.upstreams:
            if each.written.startswith(b"POST /v1/audio"):
                body = each.written.partition(b"\r\n\r\n")[2]
                assert any(whole.startswith(body) for whole in self.forms)

    @invariant()
    def who_has_to_wait_is_not_read(self):
        """And who has not, is: otherwise it would wait for ever."""
        self.loop.settle()
        for client in self._open_clients():
            exchange = client.protocol.exchange
            if isinstance(exchange, UploadExchange) and self.to_upload.get(client):
                assert client.is_paused == exchange.is_full


TestUploadStories = UploadStories.TestCase
TestUploadStories.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)
