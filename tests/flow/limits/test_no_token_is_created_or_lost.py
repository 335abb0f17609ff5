"""Whatever happens to requests and limits, the books of a limit agree with a simple model."""

from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headgate import api, routing
from headgate.flow.limits import RouteLimits

UNITS_S = {"second": 1, "minute": 60, "month": 30 * 86_400}
NEAR = Fraction(1, 1000)
SIDES = ("input", "output")

amounts = st.integers(1, 300)
sides = st.one_of(st.none(), st.integers(1, 1000))
places = st.integers(0, 1)
units = st.sampled_from(sorted(UNITS_S))


class Side:
    """One direction of a limit, in exact arithmetic: what there is, what is held, what is used."""

    def __init__(self, limit: int, unit_s: int) -> None:
        self.limit, self.unit_s, self.level = limit, unit_s, Fraction(limit)
        self.reserved = self.used = 0

    def pass_time(self, seconds: Fraction) -> None:
        self.level = min(self.level + seconds * self.limit / self.unit_s, Fraction(self.limit))

    def change(self, limit: int, unit_s: int) -> None:
        self.level = max(limit - (self.limit - self.level), min(self.level, Fraction(0)))
        self.limit, self.unit_s = limit, unit_s

    def settle(self, reserved: int, used: int) -> None:
        self.reserved -= reserved
        self.used += used
        self.level = min(self.level + reserved - used, Fraction(self.limit))


class Limits(RuleBasedStateMachine):
    """Two routes whose limits change, come and go, and requests for them that end in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.limits = RouteLimits()
        self.routes: dict[int, routing.Route] = {}
        self.model: dict[int, dict[str, Side]] = {}
        self.open = []
        """Reservations with the sides of the model that they are held in, and how much."""

    def _use(self) -> None:
        self.limits.use([*self.routes.values(), *self.routes.values()], self.now)

    # -- limits

    @rule(place=places, input=sides, output=sides, unit=units, is_new=st.booleans())
    def apply(self, place, input, output, unit, is_new):
        """A route comes, changes, or is made anew."""
        old = self.routes.get(place)
        limits = None
        if input is not None or output is not None:
            limits = routing.TokenLimits(input=input, output=output, unit=unit, unit_s=UNITS_S[unit])
        uid = str(int(old.uid) + is_new) if old is not None else "0"
        key = api.ObjectRef("ModelRoute", "default", f"route-{place}")
        self.routes[place] = routing.Route(
            key=key, name=str(key.key), model="m", adapters=(), rules=(), limits=limits, uid=uid
        )
        self._use()
        known = self.model.get(place, {}) if old is not None and old.uid == uid else {}
        self.model[place] = {}
        for side, limit in zip(SIDES, (input, output), strict=True):
            if limit is None:
                continue
            if side in known:
                known[side].change(limit, UNITS_S[unit])
            self.model[place][side] = known.get(side) or Side(limit, UNITS_S[unit])

    @rule(place=places)
    def delete(self, place):
        """A route goes, and its books with it."""
        self.routes.pop(place, None)
        self.model.pop(place, None)
        self._use()

    @rule(seconds=st.one_of(st.floats(0, 3), st.floats(0, 10**6)))
    def pass_time(self, seconds):
        then, self.now = self.now, self.now + seconds
        passed = Fraction(self.now) - Fraction(then)
        for side in self._sides():
            side.pass_time(passed)

    # -- requests

    @precondition(lambda self: any(route.limits for route in self.routes.values()))
    @rule(data=st.data(), input=amounts, output=amounts)
    def arrive(self, data, input, output):
        """A request goes if both sides let it, and takes from both or from none."""
        place = data.draw(st.sampled_from(sorted(p for p, route in self.routes.items() if route.limits)))
        limit = self.limits.by_route[self.routes[place].key]
        sides = self.model[place]
        needed = {"input": input, "output": 1}
        spare = min((side.level - needed[name] for name, side in sides.items()), default=Fraction(1))
        shortage = limit.shortage(input, self.now)
        reservation = limit.reserve(input, output, self.now)
        if abs(spare) > NEAR:
            assert (reservation is not None) == (spare > 0)
        assert (reservation is None) == (shortage.wait_s > 0)
        if reservation is None:
            assert shortage.is_for_ever == (shortage.direction == "input" and input > sides["input"].limit)
            return
        taken = {"input": input, "output": output}
        for name, side in sides.items():
            side.level -= taken[name]
            side.reserved += taken[name]
        self.open.append((reservation, sides.copy(), taken))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), input=amounts, output=st.integers(0, 600), is_served=st.booleans())
    def end(self, data, input, output, is_served):
        """A request is served, or fails and gives all back."""
        reservation, sides, taken = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        used = {"input": input, "output": output} if is_served else dict.fromkeys(SIDES, 0)
        reservation.settle(used["input"], used["output"], self.now)
        for name, side in sides.items():
            side.settle(taken[name], used[name])

    # -- the books

    def _sides(self):
        """Those of the model that are in force."""
        return [side for sides in self.model.values() for side in sides.values()]

    @invariant()
    def books_agree(self):
        self.limits.validate()
        limited = {route.key for route in self.routes.values() if route.limits is not None}
        assert self.limits.by_route.keys() == limited
        for place, sides in self.model.items():
            if not sides:
                continue
            limit = self.limits.by_route[self.routes[place].key]
            assert {account.direction for account in limit.accounts()} == sides.keys()
            for account in limit.accounts():
                side = sides[account.direction]
                assert account.budget.limit == side.limit
                assert (account.reserved, account.used) == (side.reserved, side.used)
                assert abs(Fraction(account.budget.available(self.now)) - side.level) < NEAR

    def teardown(self):
        """Once every request is over, nothing is held."""
        for reservation, _, _ in self.open:
            reservation.settle(0, 0, self.now)
        assert self.limits.statistics()["reserved"] == 0
        self.limits.validate()


TestLimits = Limits.TestCase
TestLimits.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
