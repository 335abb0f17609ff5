"""Seconds of prefill that an endpoint has not begun: a further replica could take them over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing
from headgate.fleet.estimator import STEP_TOKENS

TOKEN_S = fleet.Rates().token_s


def load() -> fleet.EndpointState:
    return fleet.EndpointState(routing.Endpoint("default/pod-0", "127.0.0.1", 8000))


def test_the_first_prompt_has_begun() -> None:
    """However long it is, and until its first token comes."""
    endpoint = load()
    booking = endpoint.book(100_000, 100, 0.0)
    assert endpoint.estimator.unbegun_s(0.0) == 0.0
    assert endpoint.estimator.unbegun_s(3600.0) == 0.0
    behind = endpoint.book(5_000, 100, 0.0)
    assert endpoint.estimator.unbegun_s(0.0) == pytest.approx(5_001 * TOKEN_S)
    booking.first_token(10.0)
    assert endpoint.estimator.unbegun_s(10.0) == 0.0, "it works on the next one"
    behind.end(10.0)


def test_prompts_that_share_a_step_begin_together() -> None:
    endpoint = load()
    for _ in range(20):
        endpoint.book(100, 100, 0.0)
    assert endpoint.estimator.unbegun_s(0.0) == 0.0
    for _ in range(20):
        endpoint.book(100, 100, 0.0)
    assert endpoint.estimator.unbegun_s(0.0) == pytest.approx((40 * 101 - STEP_TOKENS) * TOKEN_S)


def test_prompts_without_a_visible_first_token_wait_no_longer_than_the_queue() -> None:
    """Of an unstreamed response it is not known when its prompt was prefilled."""
    endpoint = load()
    for _ in range(4):
        endpoint.book(STEP_TOKENS, 100, 0.0, is_streamed=False)
    estimator = endpoint.estimator
    assert estimator.unbegun_s(0.0) == pytest.approx(3 * STEP_TOKENS * TOKEN_S, rel=0.01)
    assert estimator.unbegun_s(60.0) == 0.0


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.booleans(), st.floats(0, 5)), max_size=30),
    st.lists(st.integers(0, 29), max_size=30),
)
def test_it_is_a_part_of_the_queue(prompts: list[tuple[int, bool, float]], ended: list[int]) -> None:
    """Whatever was booked and ended, at any time."""
    endpoint, now, bookings = load(), 0.0, []
    for tokens, is_streamed, gap_s in prompts:
        now += gap_s
        bookings.append(endpoint.book(tokens, 100, now, is_streamed))
        estimator = endpoint.estimator
        assert 0.0 <= estimator.unbegun_s(now) <= estimator.queue_s(now)
    for index in ended:
        if index < len(bookings) and not bookings[index].is_over:
            now += 0.1
            bookings[index].first_token(now)
            bookings[index].end(now, 100)
            assert 0.0 <= estimator.unbegun_s(now) <= estimator.queue_s(now)
