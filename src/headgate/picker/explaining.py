"""Explains how the picker would handle a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from headgate.dataplane.explaining import Answer, Supposing
from headgate.picker import errors
from headgate.picker.request import ProxiedRequest
from headgate.requests import undecoded
from headgate.requests.deciding.decide import decide
from headgate.requests.decision import Decision
from headgate.requests.proxied import Proxied

if TYPE_CHECKING:
    from headgate.picker.settings import Choices
    from headgate.requests.bodies import large
    from headgate.requests.client import ClientRequest, Header
    from headgate.requests.destinations import Destination
    from headgate.requests.refusal import Refusal

_NOT_OF_PROXIES: Final = frozenset((b"host", b"content-length", b"connection", b"accept", b"accept-encoding"))
"""Headers of the request for an explanation, which are not those of the request to explain."""


class PickerForms:
    """`dataplane.explaining.Forms` of the picker. `default`: where requests go that name no model."""

    falls_back = False

    def __init__(self, choices: Choices, default: Destination | None) -> None:
        self._choices = choices
        self._default = default

    def request(self, path: str, headers: list[Header], body: bytes, now: float) -> ClientRequest:
        named = [header for header in headers if header[0] not in _NOT_OF_PROXIES]
        pseudo = [(b":method", b"POST"), (b":path", path.encode("latin-1", "replace"))]
        request = ProxiedRequest(pseudo + named, now)
        request.body = body
        return request

    def decide(self, known: Supposing, request: ClientRequest, read: large.Body | None) -> Decision:
        asked = cast("ProxiedRequest", request)
        if not asked.is_known_api or self._choices.passes_bodies:
            if self._default is not None:
                return undecoded.decide(known, request, self._default)
            decision = Decision()
            decision.refusal = errors.no_pool()
            return decision
        proxied = Proxied(asks_for_usage=self._choices.asks_for_usage, model=asked.model_header)
        return decide(known, request, read, proxied)

    def answer(self, refusal: Refusal, path: str) -> Answer:
        is_text = self._choices.error_format == "text"
        found = errors.response(refusal, path.encode("latin-1", "replace"), is_text=is_text)
        headers = found.mutation.set_headers if found.mutation is not None else ()
        return Answer(
            status=found.status,
            headers={each.name.decode(): each.value.decode() for each in headers},
            body=found.body.decode(),
        )
