"""Serves methods that take one message and return one."""

from __future__ import annotations

from collections.abc import Callable

from headgate.rpc import status
from headgate.rpc.calls import CallHandler, ServerCall
from headgate.rpc.errors import CallError

Respond = Callable[[ServerCall, bytes], bytes]
"""Returns the response to a request, or raises CallError with the status that the client gets."""


def unary(respond: Respond) -> Callable[[ServerCall], CallHandler]:
    """A service for `Services` that responds to each request at once."""
    return lambda call: _Unary(call, respond)


class _Unary:
    __slots__ = ("_call", "_request", "_respond")

    def __init__(self, call: ServerCall, respond: Respond) -> None:
        self._call = call
        self._respond = respond
        self._request: bytes | None = None

    def message(self, data: bytes) -> None:
        if self._request is not None:
            self._call.finish(status.INTERNAL, "more than one message for a method that takes one")
        self._request = data

    def half_closed(self) -> None:
        if self._request is None:
            self._call.finish(status.INTERNAL, "no message for a method that takes one")
            return
        try:
            response = self._respond(self._call, self._request)
        except CallError as fault:
            self._call.finish(fault.status, fault.message)
            return
        self._call.send(response)
        self._call.finish()

    def cancelled(self) -> None:
        """Nothing is in progress between messages."""
