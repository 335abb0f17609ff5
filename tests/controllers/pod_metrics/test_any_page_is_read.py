"""Whatever a page contains, reading a metric ends with a finite number, a histogram or nothing; whatever the
totals do, no rate is negative."""

import math

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from headgate.controllers.autoscaling import readings
from headgate.controllers.autoscaling.readings import Name, Reading, Readings
from headgate.engines import PageTooLargeError

LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"# TYPE m counter",
                b"# TYPE m histogram",
                b"# TYPE m",
                b"m 1",
                b"m{} NaN",
                b'm_bucket{le="0.5"} 3',
                b'm_bucket{le="+Inf"} 4',
                b'm_bucket{le="-Inf"} 1e308',
                b'm_bucket{le="nan"} 1',
                b"m_total 1e400",
                b"m{a=",
            ]
        ),
        st.binary(max_size=40),
    ),
    max_size=30,
)


@given(LINES, st.sampled_from(["m", "m_total", "m_bucket", "kthena:num_requests_waiting", "", "m\nm"]))
def test_any_bytes_are_read(lines, family):
    try:
        found = readings.read(b"\n".join(lines), family)
    except PageTooLargeError:
        return
    if found is not None:
        assert math.isfinite(found.value)
        if found.kind == "histogram":
            uppers = [upper for upper, _ in found.buckets]
            counts = [count for _, count in found.buckets]
            assert uppers == sorted(uppers)
            assert counts == sorted(counts)
            assert uppers[-1] == math.inf


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 100, allow_nan=False)), max_size=30),
    st.floats(0, 1e9, allow_nan=False),
)
def test_pages_of_prometheus_clients_are_read(observed, value):
    """As their own library writes them."""
    registry = CollectorRegistry()
    histogram = Histogram("m", "Help.", ["model"], registry=registry, buckets=(0.1, 1.0, 10.0))
    gauge = Gauge("g", "Help.", ["model"], registry=registry)
    counter = Counter("c", "Help.", ["model"], registry=registry)
    for model, seconds in observed:
        histogram.labels(model).observe(seconds)
        counter.labels(model).inc(seconds)
    gauge.labels("a").set(value)
    gauge.labels("b").set(value)
    page = generate_latest(registry)
    assert readings.read(page, "g") == Reading("gauge", 2 * value)
    if not observed:
        return
    total = readings.read(page, "c_total")
    assert total is not None
    assert total.kind == "counter"
    assert math.isclose(total.value, sum(seconds for _, seconds in observed), abs_tol=1e-9)
    found = readings.read(page, "m")
    assert found is not None
    assert [count for _, count in found.buckets] == [
        sum(seconds <= upper for _, seconds in observed) for upper in (0.1, 1.0, 10.0, math.inf)
    ]


@given(st.lists(st.tuples(st.floats(0.1, 400), st.floats(0, 1e6)), max_size=40))
def test_no_rate_is_negative(steps):
    past, now = Readings(), 0.0
    for after_s, total in steps:
        now += after_s
        change = past.add(Reading("counter", total), now)
        assert change is None or 0 <= change.per_s <= 1e6 / readings.SHORTEST_S


def test_names_may_end_with_a_quantile():
    assert Name.of("vllm:ttft") == ("vllm:ttft", 0.95)
    assert Name.of("vllm:ttft:p99.5") == ("vllm:ttft", 0.995)
    assert Name.of("x:p50") == ("x", 0.5)
    for other in ("x:p0", "x:p", "x:p100", "x:pp50", ":p50"):
        assert Name.of(other) == (other, 0.95)
