"""Sums over processes are what one process would have counted, and never go back when one ends."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from headgate import telemetry
from headgate.telemetry import sums

PLAIN = "text/plain"


class Process:
    """What one process counts."""

    def __init__(self) -> None:
        self.registry = telemetry.Registry()
        self.requests = telemetry.Counter("requests", "Requests.", ("model",))
        self.latency = telemetry.Histogram("latency", "Latency.", ("model",), bounds=(1.0, 2.0))
        self.clients = telemetry.Gauge("clients", "Clients.")
        self.endpoints = telemetry.Gauge("endpoints", "Endpoints.", over="max")
        self.registry.add(self.requests, self.latency, self.clients, self.endpoints)

    def request(self, model: str, took_s: float) -> None:
        self.requests.labels(model).value += 1
        self.latency.labels(model).observe(took_s)

    def told(self) -> list[sums.Family]:
        """As it arrives in another process."""
        encoded = msgspec.msgpack.encode(sums.families(self.registry))
        return msgspec.msgpack.decode(encoded, type=list[sums.Family])


def samples(page: bytes) -> dict[tuple, float]:
    families = text_string_to_metric_families(page.decode())
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


REQUESTS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.sampled_from([0.5, 1.0, 1.5, 3.0])), max_size=30
)


@given(REQUESTS, st.sets(st.integers(0, 2)))
def test_the_sum_is_what_one_process_would_have_counted(requests, ended):
    """Whichever processes have ended meanwhile."""
    one, several, total = Process(), [Process() for _ in range(3)], sums.Sums()
    for place, model, took_s in requests:
        one.request(model, took_s)
        several[place].request(model, took_s)
    for place in ended:
        total.keep(several[place].told())
    alive = [process.told() for place, process in enumerate(several) if place not in ended]
    page, _ = total.page([*alive, Process().told()], PLAIN)
    assert samples(page) == samples(one.registry.page(PLAIN)[0])


def test_gauges_end_with_their_process():
    """They are summed, or the largest is taken where all processes tell of the same things."""
    one, other, total = Process(), Process(), sums.Sums()
    for process, number in ((one, 2), (other, 3)):
        process.clients.labels().value = number
        process.endpoints.labels().value = number
    both = samples(total.page([one.told(), other.told()], PLAIN)[0])
    assert (both["clients", ()], both["endpoints", ()]) == (5, 3)
    total.keep(other.told())
    left = samples(total.page([one.told()], PLAIN)[0])
    assert (left["clients", ()], left["endpoints", ()]) == (2, 2)


def test_a_successor_goes_on_with_what_was_kept():
    """Kept families survive being written down; what is added to them later is added once."""
    process, total = Process(), sums.Sums()
    process.request("a", 1.0)
    total.keep(process.told())
    successor = sums.Sums(msgspec.msgpack.decode(msgspec.msgpack.encode(total.kept), type=list[sums.Family]))
    for _ in range(2):
        assert samples(successor.page([process.told()], PLAIN)[0])["requests_total", (("model", "a"),)] == 2


def test_what_is_kept_is_bounded(monkeypatch):
    """Label values come from objects that come and go: past the limit they are kept together."""
    monkeypatch.setattr(sums, "MAX_KEPT", 3)
    total = sums.Sums()
    for number in range(10):
        process = Process()
        process.request(f"m{number}", 1.0)
        total.keep(process.told())
    found = samples(total.page([], PLAIN)[0])
    requests = {labels: value for (name, labels), value in found.items() if name == "requests_total"}
    assert len(requests) == 3
    assert sum(requests.values()) == 10
    assert found["latency_count", (("model", telemetry.metrics.OTHER),)] == 8


def test_a_version_with_other_labels_replaces_what_cannot_be_added():
    """After an upgrade the page has the new form, and does not fail."""
    total = sums.Sums()
    old, new = telemetry.Registry(), telemetry.Registry()
    old.add(telemetry.Counter("requests", "Requests."))
    counter = telemetry.Counter("requests", "Requests.", ("model",))
    counter.labels("a").value = 1
    new.add(counter)
    total.keep(sums.families(old))
    page, _ = total.page([sums.families(new)], PLAIN)
    assert samples(page) == {("requests_total", (("model", "a"),)): 1}


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
def test_the_page_has_the_format_that_is_asked_for(accept):
    """Prometheus asks for its own text format or for OpenMetrics."""
    _, content_type = sums.Sums().page([Process().told()], accept)
    assert content_type.startswith(accept.partition(";")[0])
