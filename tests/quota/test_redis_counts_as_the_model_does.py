"""The scripts inside Redis answer as `LeaseAccount` and `ShareBook` do."""

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headgate.flow.limits import Claim, LeaseAccount, LocalBudget, Presence, ShareBook
from headgate.quota import redis_members, redis_script

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
        covered=draw(st.sampled_from([0, 0, 5, 400])),
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
@given(st.lists(claims(), max_size=12), st.sampled_from([0, 7, 600]))
def test_both_answer_alike(client, told, spilled):
    """Whatever members say, in whatever order, the lease that they get and the level that is left agree."""
    client.delete("account")
    model = LeaseAccount(LocalBudget(LIMIT, UNIT_S, 0.0), "one")
    model._record_overflow(spilled, 0.0)
    client.hset("account", "spilled", f"{spilled} {client.time()[0]}")
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


@st.composite
def words(draw: st.DrawFn) -> tuple[str, Presence]:
    presence = Presence(
        turn=draw(st.integers(1, 8)),
        held=draw(st.sampled_from([0, 1000, 250_000])),
        weight=draw(st.sampled_from([0.0, 0.25, 0.5, 64.0])),
        is_leaving=draw(st.integers(0, 9)) == 0,
    )
    return draw(st.sampled_from("abcd")), presence


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(words(), max_size=16), st.booleans())
def test_both_divide_alike(client, told, is_new):
    """Whatever gateways say of themselves, in whatever order, their parts agree."""
    client.delete(redis_members.KEY)
    age_s = 1.0 if is_new else 1000.0
    client.hset(redis_members.KEY, "since", client.time()[0] - age_s)
    model = ShareBook(0.0)
    script = client.register_script(redis_members.NOTE)
    for name, presence in told:
        expected = model.note(name, presence, age_s)
        answer = script([redis_members.KEY], redis_members.arguments(name, presence))
        found = redis_members.standing(answer)
        assert (found.members, found.part) == (expected.members, expected.part)


def test_what_another_limit_left_covers_nothing(client):
    """Two routes may have one bucket with different limits: what is beyond the lower one did not come in."""
    client.delete("account")
    script = client.register_script(redis_script.CLAIM)

    def level(member: str, limit: int, used: int, covered: int) -> float:
        said = {"turn": 1, "told": 0, "granted": 0, "need": 0, "least": 0, "want": 0, "epoch": ""}
        claim = Claim(
            member=member, limit=limit, unit_s=UNIT_S, used=used, covered=covered, level=limit, **said
        )
        return redis_script.grant(script(["account"], redis_script.arguments(claim))).level

    assert level("a", 10_000, 0, 0) == pytest.approx(10_000)
    assert level("b", 100, 50, 50) == pytest.approx(50, abs=0.01)
