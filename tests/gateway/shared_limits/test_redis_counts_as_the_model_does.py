"""The script inside Redis answers every claim as `LeaseAccount` does."""

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.flow.limits import Claim, LeaseAccount, LocalBudget
from headgate.gateway.limiting import redis_script

LIMIT, UNIT_S = 10_000, 1_000_000_000
"""So slow that nothing comes in while the test runs."""
TOKENS = st.integers(0, 12_000)


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    need = draw(TOKENS)
    told = draw(st.integers(0, 500))
    return Claim(
        member=draw(st.sampled_from("abc")),
        turn=draw(st.integers(1, 8)),
        limit=LIMIT,
        unit_s=UNIT_S,
        used=draw(TOKENS),
        told=told,
        granted=told + draw(st.integers(0, 500)),
        need=need,
        least=draw(st.integers(0, need)),
        want=max(draw(TOKENS), need),
        epoch=draw(st.sampled_from(["", "other"])),
        level=draw(st.integers(-100, LIMIT)),
    )


@pytest.fixture
def client(redis_server):
    with redis.Redis(unix_socket_path=redis_server.path) as client:
        yield client


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(claims(), max_size=12))
def test_both_answer_alike(client, told):
    """Whatever members say, in whatever order, the lease that they get and the level that is left agree."""
    client.delete("account")
    model = LeaseAccount(LocalBudget(LIMIT, UNIT_S, 0.0), "one")
    script = client.register_script(redis_script.CLAIM)
    for claim in told:
        expected = model.claim(claim, 0.0)
        found = redis_script.grant(script(["account"], redis_script.arguments(claim)))
        assert (found.used, found.granted, found.members) == (
            expected.used,
            expected.granted,
            expected.members,
        )
        assert found.level == pytest.approx(expected.level, abs=0.01)
