"""In any allowed order of events, each request is settled once and returns all its resources."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from one_plane import Plane

from headgate import routing
from headgate.engines.transfer import PrefillResponse
from headgate.requests import effects, elsewhere, prefill_way, states, upload_way, way
from headgate.requests.refusal import Refusal

ENDING = ("client_gone", "turned_away", "connections_exhausted", "upload_refused")

LAST = (effects.Finish, effects.Refuse, effects.CutOff, effects.PassWhole, effects.HangUp)
MAX_OPEN = 4
HANDED_OVER = PrefillResponse(kv_transfer_params=msgspec.Raw(b'{"remote_port":1}'))


class Room:
    """A queue that holds every second request, and is asked for turns by the story."""

    counts_all = True

    def __init__(self):
        self.held, self.settled_of, self.count = [], [], 0

    def passes(self, priority, now):
        self.count += 1
        return self.count % 2 == 1

    def hold(self, owner, now):
        self.held.append(owner)

    def settled(self, life, now):
        self.settled_of.append(life)
        self.held = [each for each in self.held if each.life is not life]

    def why_wait(self, priority, now):
        return ""

    def responded(self, life): ...
    def room_made(self): ...
    def refresh_endpoints(self, now): ...


class Lives(RuleBasedStateMachine):
    """Requests for one pool, whose endpoints come and go; in some stories every second one only prefills."""

    @initialize(
        connector=st.sampled_from((None, "http", "nixl", "sglang")),
        interval_s=st.sampled_from((0.0, 1.0)),
        timeout_s=st.sampled_from((None, 5.0)),
        has_limit=st.booleans(),
        has_queue=st.booleans(),
    )
    def begin(self, connector, interval_s, timeout_s, has_limit, has_queue):
        limits = routing.TokenLimits(input=100, output=100, unit="minute", unit_s=60) if has_limit else None
        self.plane = Plane(
            endpoints=4,
            connector=connector,
            limits=limits,
            retry_interval_s=interval_s,
            timeout_s=timeout_s,
            attempts=2,
        )
        self.room = Room() if has_queue else None
        self.plane.pool.queue = self.room
        self.shells = []

    # -- what happens

    @rule(stream=st.booleans(), model=st.sampled_from("mmmx"))
    def a_request_comes(self, stream, model):
        if len(self.open()) < MAX_OPEN:
            self.shells.append(self.plane.ask({"model": model, "prompt": "hello", "stream": stream}))

    @rule(seconds=st.sampled_from((0.1, 3.0, 70.0, 400.0)))
    def time_passes(self, seconds):
        self.plane.now += seconds

    @rule(places=st.sets(st.integers(0, 5), max_size=5))
    def endpoints_change(self, places):
        self.plane.serve(sorted(places))
        self.plane.pool.queue = self.room

    @rule()
    def a_second_is_over(self):
        for shell in self.open():
            if not shell.life.is_over:
                self.plane.report(shell, way.sweep)

    @precondition(lambda self: self.open())
    @rule(data=st.data(), events=st.integers(1, 6))
    def a_request_goes_on(self, data, events):
        """What happens if nothing goes wrong, as far as that."""
        shell = data.draw(st.sampled_from(self.open()))
        for _ in range(events):
            name = self.usual(shell)
            if name is not None:
                getattr(self, name)(shell, None)

    @precondition(lambda self: self.open())
    @rule(data=st.data(), events=st.integers(1, 6))
    def a_prompt_is_prefilled(self, data, events):
        """The same where another endpoint is asked."""
        pairs = [shell for shell in self.open() if self.prefill_of(shell) is not None]
        for shell in pairs[:1]:
            for _ in range(events):
                name = self.usual_of_prefill(shell)
                if name is not None:
                    getattr(self, name)(shell, None)

    @precondition(lambda self: self.open())
    @rule(data=st.data())
    def something_is_reported(self, data):
        """Any event that the state of a request allows, but those that only end it."""
        shell = data.draw(st.sampled_from(self.open()))
        names = sorted(name for name, allowed in states.ALLOWED.items() if self.may(shell, name, allowed))
        if names:
            getattr(self, data.draw(st.sampled_from(names)))(shell, data)

    @precondition(lambda self: self.open())
    @rule(data=st.data(), name=st.sampled_from(ENDING))
    def a_request_is_ended(self, data, name):
        """By its client, by others, or for want of descriptors."""
        shell = data.draw(st.sampled_from(self.open()))
        if states.ALLOWED[name] & shell.life.state and data.draw(st.booleans()):
            getattr(self, name)(shell, data)

    def prefill_of(self, shell):
        return shell.life.pairing.running if shell.life.pairing is not None else None

    def usual(self, shell):
        state = shell.life.state
        if state == states.QUEUED:
            return "admitted"
        if state == states.PREFILLING:
            return self.usual_of_prefill(shell)
        if state == states.ANSWERING:
            return "finished" if shell.life.account.first_byte_at else "first_byte"
        return {states.REACHING: "sent", states.SENT: "head", states.RETRYING: "timer"}.get(state)

    def usual_of_prefill(self, shell):
        prefill = self.prefill_of(shell)
        if prefill is None:
            return None
        if not prefill.is_sent:
            return "prefill_sent"
        return "prefilled" if prefill.status else "prefill_head"

    def may(self, shell, name, allowed):
        if name in ("begin", "decided", "body_read", "tokens_fetched", "tokens_out", "broke"):
            return False  # these have happened, or need what is not here
        if name in (
            "client_gone",
            "turned_away",
            "connections_exhausted",
            "prefill_impossible",
            "upload_refused",
        ):
            return False  # they have a rule of their own, or are few
        if not allowed & shell.life.state:
            return False
        pairing = shell.life.pairing
        if name.startswith("prefill"):
            return pairing is not None and pairing.running is not None
        if name == "admitted":
            return self.room is not None and shell in self.room.held
        if name == "finished":
            return bool(shell.life.account.first_byte_at)
        return True

    def admitted(self, shell, data):
        self.room.held.remove(shell)
        self.plane.report(shell, way.admitted, self.plane.pool)

    def turned_away(self, shell, data):
        self.plane.report(shell, way.turned_away, Refusal.saturated("full", code="queue_full"))

    def upload_refused(self, shell, data):
        self.plane.report(
            shell, upload_way.upload_refused, Refusal.bad_request("no form", code="invalid_form")
        )

    def sent(self, shell, data):
        self.plane.report(shell, way.sent)

    def connect_failed(self, shell, data):
        self.plane.report(shell, way.connect_failed, "refused")

    def connections_exhausted(self, shell, data):
        self.plane.report(shell, way.connections_exhausted, "no descriptors")

    def connects_slowly(self, shell, data):
        self.plane.report(shell, way.connects_slowly)

    def served_by(self, shell, data):
        loads = shell.life.pool.loads
        load = data.draw(st.sampled_from(loads)) if loads else shell.life.load
        has_failed = data.draw(st.booleans())
        self.plane.report(
            shell, lambda life, now: elsewhere.served_by(life, load, now, has_failed=has_failed)
        )

    def head(self, shell, data):
        status = data.draw(st.sampled_from((200, 400, 404, 429, 500, 503))) if data is not None else 200
        rest_s = data.draw(st.sampled_from((None, 2.0))) if status in (429, 503) else None
        self.plane.report(shell, way.head, status, rest_s)

    def first_byte(self, shell, data):
        if not shell.life.account.first_byte_at:
            self.plane.report(shell, way.first_byte)
            shell.received.tail.add(b'{"usage":{"prompt_tokens":3,"completion_tokens":5}}')
            shell.received.size += 51
            shell.received.has_passed = data is None or data.draw(st.booleans())

    def finished(self, shell, data):
        self.plane.report(shell, way.finished)

    def endpoint_lost(self, shell, data):
        is_crossed = shell.life.state == states.SENT and data.draw(st.booleans())
        has_begun = not is_crossed and data.draw(st.booleans())
        self.plane.report(shell, way.endpoint_lost, "lost", is_crossed=is_crossed, has_begun=has_begun)

    def endpoint_broke(self, shell, data):
        is_head = shell.life.state == states.SENT or not shell.life.account.first_byte_at
        self.plane.report(shell, way.endpoint_broke, "babble", is_head=is_head)

    def timer(self, shell, data):
        self.plane.report(shell, way.timer)

    def client_gone(self, shell, data):
        self.plane.report(shell, way.client_gone)

    def prefill_sent(self, shell, data):
        self.plane.report(shell, prefill_way.prefill_sent)

    def prefill_head(self, shell, data):
        status = data.draw(st.sampled_from((200, 400, 500, 503))) if data is not None else 200
        self.plane.report(shell, prefill_way.prefill_head, status, None)

    def prefilled(self, shell, data):
        answer = (
            data.draw(st.sampled_from((PrefillResponse(), HANDED_OVER))) if data is not None else HANDED_OVER
        )
        self.plane.report(shell, prefill_way.prefilled, answer)

    def prefill_refused(self, shell, data):
        status = data.draw(st.sampled_from((400, 404, 429)))
        self.plane.report(shell, prefill_way.prefill_refused, status, [], b"no")

    def prefill_failed(self, shell, data):
        reason = data.draw(st.sampled_from(("connect", "reset", "timeout")))
        self.plane.report(shell, prefill_way.prefill_failed, reason, "failed")

    def prefill_impossible(self, shell, data):
        self.plane.report(shell, prefill_way.prefill_impossible, "no descriptors")

    # -- what holds

    def open(self):
        return [shell for shell in self.shells if not shell.life.is_over]

    @invariant()
    def the_books_are_in_order(self):
        if not hasattr(self, "shells"):
            return
        for shell in self.shells:
            shell.life.validate()
            ends = [effect for effect in shell.done if isinstance(effect, LAST)]
            assert len(ends) == shell.life.is_over
            if ends:
                assert shell.done[-1] is ends[0]
        lives = [shell.life for shell in self.shells]
        booked = sum(life.load is not None and not life.is_over for life in lives)
        running = [life.pairing.running for life in lives if life.pairing is not None]
        booked += sum(each is not None for each in running)
        self.plane.plane.ledger.validate()
        assert self.plane.plane.ledger.statistics()["requests"] == booked
        self.plane.plane.routes.limits.validate()
        if self.room is not None:
            told = [id(life) for life in self.room.settled_of]
            assert len(told) == len(set(told))
            assert set(told) <= {id(life) for life in lives if life.is_over}

    def teardown(self):
        if not hasattr(self, "shells"):
            return
        for shell in self.open():
            self.plane.report(shell, way.client_gone)
        for shell in self.shells:
            if shell.life.pairing is not None and shell.life.pairing.running is not None:
                shell.life.pairing.running.end(self.plane.now)  # it was left to end by itself
        self.the_books_are_in_order()
        assert self.plane.plane.ledger.statistics()["requests"] == 0
        for limit in self.plane.plane.routes.limits.by_route.values():
            assert all(account.reserved == 0 for account in limit.accounts())


TestLives = Lives.TestCase
EXAMPLES = 2 * settings.default.max_examples
"""100 of the same, or 500 to explore."""
TestLives.settings = settings(max_examples=EXAMPLES, stateful_step_count=60, deadline=None)
