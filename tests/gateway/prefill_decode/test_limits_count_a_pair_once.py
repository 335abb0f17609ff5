"""With disaggregated prefill and decode, a route's limit counts a request once, by the decode endpoint."""

import pytest

from headgate import api, routing

LIMITS = routing.TokenLimits(input=1000, output=1000, unit="month", unit_s=30 * 86_400)
ROUTE = api.ObjectRef("ModelRoute", "default", "route")
ANSWER = b'{"usage":{"prompt_tokens":40,"completion_tokens":9}}'


@pytest.fixture
def used():
    """Tokens of input and output that a gateway has counted, and that are held."""

    def of(some):
        accounts = some.gateway.shell.plane.routes.limits.by_route[ROUTE].accounts()
        return [account.used for account in accounts], [account.reserved for account in accounts]

    return of


async def test_a_prompt_that_is_prefilled_elsewhere_counts_once(split, chat, handed_over, used):
    """Though two endpoints were sent it."""
    some = await split(limits=LIMITS)
    client = await some.gateway.connect()
    client.post(chat())
    handed_over(await some.prefill[0].call())
    call = await some.decode[0].call()
    assert used(some)[1][1] == 20
    call.answer(ANSWER)
    response = await client.response()
    assert response.header("x-ratelimit-remaining-tokens") == "980"
    assert used(some) == ([40, 9], [0, 0])


async def test_a_prompt_that_both_refuse_costs_nothing(split, chat, used):
    """Errors of either phase leave the limit as it was."""
    some = await split(limits=LIMITS)
    for endpoint in (*some.prefill, *some.decode):
        endpoint.behave = lambda call: call.answer(b'{"error":{}}', "400 Bad Request")
    assert (await some.gateway.ask(chat())).status == 400
    assert used(some) == ([0, 0], [0, 0])


async def test_an_answer_that_begins_again_counts_once(split, chat, handed_over, used):
    """A decoding endpoint that fails before its answer is followed by another."""
    some = await split(decode=2, limits=LIMITS)
    some.prefill[0].behave = handed_over
    some.decode[0].behave = lambda call: call.reset()
    some.decode[1].behave = lambda call: call.answer(ANSWER)
    assert (await some.gateway.ask(chat())).status == 200
    assert used(some) == ([40, 9], [0, 0])
