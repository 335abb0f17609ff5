"""What a request takes from its route's limit: an estimate at first, at its end what it used.

Nothing is used by a request to which no endpoint gave an answer, or only an error. Where an answer broke off,
or its client left, the prompt counts, and as much of the answer as came: engines send what they generate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate.gateway import produced
from headgate.requests.limits import headers, refusing

if TYPE_CHECKING:
    from headgate.flow.limits import Reservation
    from headgate.gateway.delivery import Delivery
    from headgate.gateway.exchange import Exchange
    from headgate.gateway.proxy import Proxy
    from headgate.requests.refusal import Refusal


def reserve(proxy: Proxy, exchange: Delivery, now: float, again: Callable[[], None] | None) -> Refusal | None:
    """Reserves the tokens of a request whose route is limited, or says why it is not to go.

    Where they have to be fetched first, neither is so: the exchange is told to wait, and `again` is called.
    """
    decision = exchange.decision
    match, scheduled = decision.match, decision.scheduled
    assert match is not None
    limit = proxy.token_limits.by_route.get(match.route.key)
    if limit is None:
        return None  # it was taken away while the request was read
    input_tokens, output_tokens = scheduled.prompt_tokens or 1, scheduled.output_tokens
    exchange.reservation = reservation = limit.reserve(input_tokens, output_tokens, now)
    if reservation is not None:
        return None
    waiter = proxy.limit_sources.wait(limit, input_tokens, output_tokens, again) if again else None
    if waiter is not None:
        exchange.wait_for_tokens(waiter)
        return None
    shortage = limit.shortage(input_tokens, now)
    limit.refused(shortage)
    return refusing.refusal(limit, shortage, headers.lines(limit, input_tokens, output_tokens, now))


def settle(exchange: Exchange, reservation: Reservation, now: float) -> None:
    """Counts what the request used, whatever became of it."""
    usage = exchange.usage
    if not exchange.bytes_out or exchange.upstream_status >= 400:
        reservation.settle(0, 0, now)
        return
    if usage is not None and exchange.outcome == "served":
        answer = usage.completion
    else:
        answer = produced.tokens(exchange, reservation.output_tokens)
    prompt = usage.prompt if usage is not None else 0
    reservation.settle(prompt or reservation.input_tokens, answer, now)
