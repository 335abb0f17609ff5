"""Services and receivers for tests of gRPC."""

from __future__ import annotations

import asyncio


class Handler:
    """Records what it hears of a call."""

    def __init__(self, call) -> None:
        self.call = call
        self.heard: list[object] = []
        all_handlers.append(self)

    def message(self, data: bytes) -> None:
        self.heard.append(data)

    def half_closed(self) -> None:
        self.heard.append("half closed")

    def cancelled(self) -> None:
        self.heard.append("cancelled")


all_handlers: list[Handler] = []
"""In the order in which they were made; tests clear it."""


class Echo(Handler):
    """Sends each message back, and finishes when the client does."""

    def message(self, data: bytes) -> None:
        super().message(data)
        self.call.send(data)

    def half_closed(self) -> None:
        super().half_closed()
        self.call.finish()


class Collect(Handler):
    """Responds with the number of messages, and with all of them as one."""

    def half_closed(self) -> None:
        self.call.send(b"%d: %b" % (len(self.heard), b"".join(self.heard)))
        self.call.finish()


echo, collect, hold = Echo, Collect, Handler
"""`hold` never responds."""


class Received:
    """What a client of ours hears of a call."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.status = None
        self.ended = asyncio.get_running_loop().create_future()

    def message(self, data: bytes) -> None:
        assert self.status is None
        self.messages.append(data)

    def closed(self, status) -> None:
        assert self.status is None
        self.status = status
        if not self.ended.done():
            self.ended.set_result(status)
