"""What a request takes from its route's limit: an estimate at first, at its end what it used.

Nothing is used by a request to which no endpoint gave an answer, or only an error. Where an answer broke off,
or its client left, the prompt counts, and as much of the answer as came: engines send what they generate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headgate.gateway.limiting import headers, refusing

if TYPE_CHECKING:
    from headgate.flow.limits import Reservation
    from headgate.gateway.delivery import Delivery
    from headgate.gateway.exchange import Exchange
    from headgate.gateway.proxy import Proxy
    from headgate.gateway.refusals import Refusal
    from headgate.gateway.request import Header
    from headgate.gateway.usage import Usage

BYTES_PER_TOKEN = 4
"""Of an answer that came in no events and without counts: English text."""


def reserve(proxy: Proxy, exchange: Delivery) -> Refusal | None:
    """Reserves the tokens of a request whose route is limited, or says why it is not to go."""
    decision = exchange.decision
    assert decision.match is not None
    limit = proxy.token_limits.by_route.get(decision.match.route.key)
    if limit is None:
        return None  # it was taken away while the request was read
    now = proxy.now()
    input_tokens = decision.scheduled.prompt_tokens or 1
    exchange.reservation = limit.reserve(input_tokens, decision.scheduled.output_tokens, now)
    if exchange.reservation is not None:
        return None
    shortage = limit.shortage(input_tokens, now)
    limit.refused(shortage)
    told = headers.lines(limit, input_tokens, decision.scheduled.output_tokens, now)
    return refusing.refusal(limit.name, shortage, told)


def lines(proxy: Proxy, exchange: Delivery) -> bytes:
    """Header lines that tell the client what is left now; none if the limit was taken away meanwhile."""
    decision = exchange.decision
    assert decision.match is not None
    limit = proxy.token_limits.by_route.get(decision.match.route.key)
    if limit is None:
        return b""
    scheduled = decision.scheduled
    return headers.lines(limit, scheduled.prompt_tokens or 1, scheduled.output_tokens, proxy.now())


def without_limits(received: list[Header]) -> list[Header]:
    """An endpoint's headers without what it says of limits of its own."""
    return [header for header in received if not header[0].startswith(headers.PREFIX)]


def settle(exchange: Exchange, reservation: Reservation, now: float) -> None:
    """Counts what the request used, whatever became of it."""
    usage = exchange.usage
    if not exchange.bytes_out or exchange.upstream_status >= 400:
        reservation.settle(0, 0, now)
    else:
        reservation.settle(_prompt(usage) or reservation.input_tokens, _answer(exchange, reservation), now)


def _prompt(usage: Usage | None) -> int:
    """Tokens of the prompt; 0 where the engine does not tell. Anthropic's API counts what is cached apart."""
    return usage.prompt + (usage.cache_read_input_tokens or 0) if usage is not None else 0


def _answer(exchange: Exchange, reservation: Reservation) -> int:
    """Tokens of the answer. Of one that broke off, a count is that of its beginning."""
    usage = exchange.usage
    if usage is not None and exchange.outcome == "served":
        return usage.completion
    event_bytes = exchange.tail.event_bytes() if exchange.decision.stream else 0.0
    if event_bytes:
        seen = round((exchange.bytes_out + exchange.taken_bytes) / event_bytes)
    else:
        seen = min(exchange.bytes_out // BYTES_PER_TOKEN, reservation.output_tokens)
    return seen if usage is None else max(seen, usage.completion)
