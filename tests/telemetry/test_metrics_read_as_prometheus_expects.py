"""The metrics page is what Prometheus' own parser reads, and label values are bounded."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headgate import telemetry
from headgate.telemetry.metrics import LATENCY_S, MAX_CHILDREN, OTHER


def read(registry: telemetry.Registry) -> dict[tuple[str, tuple], float]:
    families = text_string_to_metric_families(registry.render().decode())
    samples = [sample for family in families for sample in family.samples]
    return {(sample.name, tuple(sorted(sample.labels.items()))): sample.value for sample in samples}


def test_counters_and_gauges():
    """Counters get their suffix; gauges are kept or asked for at the scrape."""
    registry = telemetry.Registry()
    requests = telemetry.Counter("requests", "Requests.", ("model", "code"))
    plain = telemetry.Counter("plain", "Without labels.")
    kept = telemetry.Gauge("kept", "Kept.")
    asked = telemetry.Gauge("asked", "Asked.", ("pool",), lambda: [(("a",), 3), (("b",), 4)])
    registry.add(requests, plain, kept, asked)
    requests.labels("m", "200").value += 2
    requests.labels("m", "200").value += 1
    kept.labels().value = -1.5
    assert read(registry) == {
        ("requests_total", (("code", "200"), ("model", "m"))): 3,
        ("plain_total", ()): 0,
        ("kept", ()): -1.5,
        ("asked", (("pool", "a"),)): 3,
        ("asked", (("pool", "b"),)): 4,
    }


@given(st.lists(st.floats(0, 1000), max_size=30))
def test_histograms_count_into_every_bucket_at_least_as_wide(values):
    """Buckets are cumulative, their bounds inclusive, and the last has all."""
    registry = telemetry.Registry()
    histogram = telemetry.Histogram("latency", "Latency.", ("model",))
    registry.add(histogram)
    for value in values:
        histogram.labels("m").observe(value)
    seen = read(registry)
    if not values:
        assert seen == {}
        return
    model = ("model", "m")
    for bound in LATENCY_S:
        assert seen["latency_bucket", (("le", str(bound)), model)] == sum(v <= bound for v in values)
    assert seen["latency_bucket", (("le", "+Inf"), model)] == seen["latency_count", (model,)] == len(values)
    assert seen["latency_sum", (model,)] == pytest.approx(sum(values))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_label_value_survives(value):
    """Quotes, backslashes and newlines in names don't break the page."""
    registry = telemetry.Registry()
    counter = telemetry.Counter("c", "C.", ("name",))
    registry.add(counter)
    counter.labels(value).value += 1
    assert list(read(registry).values()) == [1]


def test_label_values_are_bounded():
    """Past the limit, new label values are counted together; those known go on."""
    counter = telemetry.Counter("c", "C.", ("model", "code"))
    for place in range(MAX_CHILDREN + 50):
        counter.labels(f"m{place}", "200").value += 1
    counter.labels("m0", "200").value += 1
    children = dict(counter.children())
    assert len(children) == MAX_CHILDREN + 1
    assert children[OTHER, OTHER].value == 50
    assert children["m0", "200"].value == 2
