"""The effects of each event, in the minimal shell: no loop, no connection, no clock."""

from pathlib import Path

import pytest
from one_plane import Plane

from headgate import requests, routing
from headgate.engines.transfer import PrefillResponse
from headgate.requests import effects, elsewhere, prefill_way, states, upload_way, way

USAGE = b'{"usage":{"prompt_tokens":3,"completion_tokens":5}}'


def kinds(shell):
    return [type(effect).__name__ for effect in shell.done]


def answer(plane, shell, status=200, body=USAGE):
    """A whole answer comes from the endpoint that is asked."""
    plane.report(shell, way.sent)
    plane.report(shell, way.head, status, None)
    if shell.life.state == states.ANSWERING:
        shell.received.tail.add(body)
        shell.received.size += len(body)
        plane.report(shell, way.first_byte)
        plane.report(shell, way.finished)


def test_a_request_is_served(plane):
    """It is decided, sent and answered; nothing stays booked."""
    shell = plane.ask()
    assert kinds(shell) == ["Ask"]
    assert plane.plane.ledger.statistics()["requests"] == 1
    answer(plane, shell)
    assert kinds(shell) == ["Ask", "Respond", "Finish"]
    account = shell.life.account
    assert (account.outcome, account.status, account.usage.completion) == ("served", 200, 5)
    assert plane.plane.ledger.statistics()["requests"] == 0


def test_another_endpoint_is_asked_when_one_cannot_be_reached(plane):
    """The first is remembered, and has failed once."""
    shell = plane.ask()
    first = shell.asked.load
    plane.report(shell, way.connect_failed, "refused")
    assert shell.asked.load is not first
    assert first.failures == 1
    answer(plane, shell)
    assert [(each.endpoint, each.reason) for each in shell.life.account.failed_attempts] == [
        (first.endpoint.name, "connect")
    ]


def test_an_interval_lies_between_attempts():
    """The shell has the timer; the request is at no endpoint meanwhile."""
    plane = Plane(retry_interval_s=2.0)
    shell = plane.ask()
    plane.report(shell, way.connect_failed, "refused")
    assert shell.life.phase == "waiting to retry"
    assert isinstance(shell.done[-1], effects.StartTimer)
    assert shell.done[-1].seconds == 2.0
    plane.now += 2.0
    plane.report(shell, way.timer)
    assert shell.life.phase == "connecting"


def test_the_pool_is_gone_when_the_interval_is_over():
    """The client is told so."""
    plane = Plane(retry_interval_s=2.0)
    shell = plane.ask()
    plane.report(shell, way.connect_failed, "refused")
    plane.plane.use(routing.EMPTY, plane.now)
    plane.report(shell, way.timer)
    assert (shell.refusal.code, shell.refusal.status) == ("no_ready_endpoint", 503)


def test_a_pool_without_endpoints_refuses():
    """Nothing was tried."""
    shell = Plane(endpoints=0).ask()
    assert kinds(shell) == ["Refuse"]
    assert (shell.refusal.code, shell.life.account.attempts) == ("no_ready_endpoint", 0)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"model": "other", "prompt": ""}, "model_not_found"),
        (b"{", "invalid_json"),
    ],
)
def test_what_cannot_be_decided_is_refused(plane, body, code):
    """The account says the same as the refusal."""
    shell = plane.ask(body)
    assert shell.refusal.code == shell.life.account.outcome == code


def test_an_answer_that_breaks_off_is_cut_off(plane):
    """Once the client has a part of it, nothing is tried again."""
    shell = plane.ask()
    plane.report(shell, way.sent)
    plane.report(shell, way.head, 200, None)
    plane.report(shell, way.first_byte)
    shell.received.has_passed = True
    plane.report(shell, way.endpoint_lost, "closed", is_crossed=False, has_begun=True)
    assert isinstance(shell.done[-1], effects.CutOff)
    assert shell.life.account.outcome == "upstream_lost"


def test_a_connection_that_crossed_with_a_close_is_no_failure(plane):
    """The same endpoint is asked again, on a new connection."""
    shell = plane.ask()
    first = shell.asked.load
    plane.report(shell, way.sent)
    plane.report(shell, way.endpoint_lost, "closed", is_crossed=True, has_begun=False)
    assert shell.asked.load is first
    assert shell.asked.is_afresh
    assert first.failures == 0


def test_nothing_is_asked_twice_of_which_a_part_came(plane):
    """Whoever has sent a part of a head may have done the work."""
    shell = plane.ask()
    plane.report(shell, way.sent)
    plane.report(shell, way.endpoint_lost, "closed", is_crossed=False, has_begun=True)
    assert shell.refusal.code == "upstream_failed"


def test_silence_has_an_end(plane):
    """Of an endpoint that answers nothing, and of one amid its answer."""
    shell = plane.ask()
    plane.report(shell, way.sent)
    plane.now += 601.0
    plane.report(shell, way.sweep)
    assert shell.life.account.failed_attempts[0].reason == "timeout"
    plane.report(shell, way.sent)
    plane.report(shell, way.head, 200, None)
    plane.now += 61.0
    plane.report(shell, way.sweep)
    assert shell.life.account.outcome == "idle_timeout"


def test_a_client_that_reads_nothing_is_let_go(plane):
    """So is its endpoint."""
    shell = plane.ask()
    plane.report(shell, way.sent)
    plane.report(shell, way.head, 200, None)
    plane.now += 61.0
    plane.report(shell, way.sweep, is_stalled=True)
    assert (shell.life.account.outcome, kinds(shell)[-1]) == ("client_stalled", "HangUp")


def test_tokens_that_are_used_up():
    """The second prompt of a minute is refused; nothing is booked for it."""
    plane = Plane(limits=routing.TokenLimits(input=5, unit="minute", unit_s=60))
    answer(plane, plane.ask({"model": "m", "prompt": "x" * 16}))
    shell = plane.ask({"model": "m", "prompt": "x" * 16})
    assert kinds(shell) == ["FetchTokens", "Refuse"]
    assert shell.refusal.status == 429
    assert plane.plane.ledger.statistics()["requests"] == 0


def test_events_that_cannot_happen_are_mistakes(plane):
    """They are told with the story so far, and change nothing."""
    shell = plane.ask()
    with pytest.raises(states.NotAllowedError, match=r"head of a request that is connecting.*'model': 'm'"):
        way.head(shell.life, 200, None, plane.now)
    with pytest.raises(states.NotAllowedError, match="without a prefill"):
        prefill_way.prefilled(shell.life, PrefillResponse(), plane.now)
    shell.life.validate()
    answer(plane, shell)
    with pytest.raises(states.NotAllowedError, match="over"):
        way.client_gone(shell.life, plane.now)


def test_every_event_has_its_states():
    """The table names each function that reports one, and no other."""
    modules = (way, prefill_way, upload_way, elsewhere)
    events = {name for module in modules for name in vars(module) if name in states.ALLOWED}
    assert events == states.ALLOWED.keys()


def test_a_prompt_is_prefilled_elsewhere():
    """Then the endpoint that answers is asked."""
    plane = Plane(connector="http")
    shell = plane.ask()
    assert kinds(shell) == ["Prefill"]
    assert shell.life.phase == "prefilling"
    plane.report(shell, prefill_way.prefill_sent)
    plane.report(shell, prefill_way.prefill_head, 200, None)
    plane.report(shell, prefill_way.prefilled, PrefillResponse())
    assert shell.asked.load.endpoint.name == "default/pod-1"
    answer(plane, shell)
    assert shell.life.pairing.told()["decision"] == "remote"
    assert plane.plane.ledger.statistics()["requests"] == 0


def test_nobody_else_can_prefill():
    """The endpoint that answers does all of it."""
    plane = Plane(connector="http")
    shell = plane.ask()
    plane.report(shell, prefill_way.prefill_failed, "connect", "refused")
    assert shell.asked.load.endpoint.name == "default/pod-1"
    assert shell.life.pairing.decision == "no_prefill"
    answer(plane, shell)
    assert shell.life.account.outcome == "served"


class Broken:
    """A policy of somebody's own."""

    uses_prefix = marks_responses = judges_decoding = False
    first_block_bytes = 0
    name = "broken"

    def pick(self, *_):
        raise ZeroDivisionError


def test_a_policy_that_raises_fails_its_request_alone(plane, caplog):
    """The client hears of a fault of the gateway; the log says which."""
    policy, plane.pool.policy = plane.pool.policy, Broken()
    shell = plane.ask()
    assert (shell.refusal.status, shell.life.account.outcome) == (500, "internal_error")
    assert "ZeroDivisionError" in caplog.text
    plane.pool.policy = policy
    answer(plane, plane.ask())


def test_the_way_is_read_in_one_go():
    """All events are in one file, and it stays short: what they come to is in the stages beside it."""
    assert len((Path(requests.__file__).parent / "way.py").read_text().splitlines()) <= 200


@pytest.mark.parametrize("interval_s", [0.0, 2.0])
def test_a_prefill_ends_with_the_attempt_that_it_was_for(interval_s):
    """Both endpoints were asked at once, and the one that was to answer cannot be reached."""
    plane = Plane(connector="sglang", endpoints=4, retry_interval_s=interval_s)
    shell = plane.ask()
    first = shell.life.pairing.running
    assert kinds(shell) == ["Prefill", "Ask"]
    plane.report(shell, way.connect_failed, "refused")
    assert first.is_over
    assert kinds(shell)[2:4] == ["StopTimer", "DropPrefill"]
    assert (shell.life.pairing.running is None) == bool(interval_s)


def test_a_prefill_ends_with_its_request():
    """The client leaves: neither endpoint works on."""
    plane = Plane(connector="http")
    shell = plane.ask()
    plane.report(shell, way.client_gone)
    assert kinds(shell) == ["Prefill", "DropPrefill", "HangUp"]
    assert plane.plane.ledger.statistics()["requests"] == 0


def test_a_head_that_is_not_http_is_refused(plane):
    """Nothing was passed on: the status is the gateway's own, and so is the outcome."""
    shell = plane.ask()
    plane.report(shell, way.sent)
    plane.report(shell, way.head, 200, None)
    plane.report(shell, way.endpoint_broke, "two lengths", is_head=True)
    account = shell.life.account
    assert (account.status, account.upstream_status, account.outcome) == (502, 0, "upstream_invalid")


def test_a_prefill_is_given_up_by_the_time_of_its_own_pool():
    """An edit of the pool does not give a timer to what runs without one."""
    plane = Plane(connector="nixl", attempts=0)
    shell = plane.ask()
    plane.report(shell, prefill_way.prefill_sent)
    plane.pool_fields["timeout_s"] = 60.0
    plane.serve(range(2))
    shell.life.pool = plane.pool  # as after a look for another endpoint
    plane.now += 4000.0
    plane.report(shell, way.sweep)
    assert shell.refusal.code == "upstream_timeout"


def test_the_timer_that_runs_is_stopped():
    """Whatever became of the pool's timeout since it was started."""
    plane = Plane(timeout_s=60.0)
    shell = plane.ask()
    plane.report(shell, way.sent)
    plane.pool_fields["timeout_s"] = None
    plane.serve(range(2))
    shell.life.pool = plane.pool
    plane.report(shell, way.head, 200, None)
    assert kinds(shell) == ["StartTimer", "Ask", "StopTimer", "Respond"]


def test_what_the_endpoint_said_is_kept_of_an_answer_that_broke(plane):
    """Nothing was passed on, so that the client is refused; the log tells of the head that came."""
    shell = plane.ask()
    plane.report(shell, way.sent)
    plane.report(shell, way.head, 200, None)
    plane.report(shell, way.first_byte)
    plane.report(shell, way.endpoint_lost, "closed", is_crossed=False, has_begun=True)
    account = shell.life.account
    assert (account.status, account.upstream_status, bool(account.first_byte_at)) == (502, 200, True)


def test_nothing_is_left_to_do_of_an_attempt_that_failed_here(plane, caplog):
    """Effects of a step that raised are not performed after the request is over."""
    plane.pool.policy = Broken()
    shell = plane.ask()
    assert kinds(shell) == ["Refuse"]
    assert not shell.life.todo
