"""The quick answer whether there is room is that of the saturation, whatever state endpoints are in."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headgate import fleet, routing
from headgate.fleet import EngineReading
from headgate.flow.capacity import PredictedWork

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["book", "first", "end", "read", "silent", "fail", "learn"]),
        st.integers(0, 2),
        st.integers(0, 9000),
        st.floats(0.0, 0.7),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(events=EVENTS)
def test_there_is_room_as_long_as_the_pool_is_not_saturated(events):
    """After any history of bookings, first tokens, ends, readings and failures."""
    ledger = fleet.Ledger()
    loads = [ledger.load(routing.Endpoint(f"e-{at}", "127.0.0.1", 8000)) for at in range(3)]
    open_bookings = {load: [] for load in loads}
    capacity = PredictedWork(without_reading=6, max_requests=9)
    capacity.follow(loads)
    now = 0.0
    for what, at, number, passes_s in events:
        now += passes_s
        load, bookings = loads[at], open_bookings[loads[at]]
        if what == "book":
            bookings.append(load.book(number, 100, now, number % 3 > 0))
        elif what == "first" and bookings and not bookings[0].is_prefilled:
            bookings[0].first_token(now)
        elif what == "end" and bookings:
            bookings.pop(0).end(now)
        elif what == "read":
            running = number % 7
            usage = number / 9000
            load.read(
                EngineReading(
                    at=now, waiting=number % 4, running=running, kv_usage=usage, blocks=900, block_tokens=16
                )
            )
        elif what == "silent":
            load.read(None)
        elif what == "fail":
            load.failed(now)
        elif what == "learn":
            load.estimator.rates.learn(1, 5000, 0.3)
        assert capacity.has_room(0, now) is (capacity.saturation(now) < 1.0)
