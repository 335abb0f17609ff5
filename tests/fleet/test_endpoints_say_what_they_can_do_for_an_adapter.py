"""An endpoint has an adapter loaded, has a place for it, has none, or does not know it."""

import pytest

from headgate import fleet, routing
from headgate.fleet import EngineReading
from headgate.fleet.adapters import in_use, place


def load_with(sent=(), **reading):
    load = fleet.Ledger().load(routing.Endpoint("default/pod", "127.0.0.1", 8000))
    for adapter in sent:
        load.book(1, 0, 0.0, adapter=adapter)
    if reading:
        load.read(EngineReading(at=0.0, **reading))
    return load


def names(*adapters):
    return frozenset(adapters)


@pytest.mark.parametrize(
    ("stands", "sent", "reading"),
    [
        ("fits", [], {}),
        ("loaded", ["a"], {}),
        ("loaded", ["a"], {"models": names("base")}),
        ("loaded", [], {"adapters_running": names("a"), "max_adapters": 1}),
        ("loaded", [], {"adapters_waiting": names("a"), "max_adapters": 1}),
        ("unknown", [], {"models": names("base", "b")}),
        ("fits", [], {"models": names("base", "a")}),
        ("fits", [], {"adapters_running": names("b", "c")}),
        ("fits", [], {"adapters_running": names("b", "c"), "max_adapters": 3}),
        ("full", [], {"adapters_running": names("b"), "adapters_waiting": names("c"), "max_adapters": 2}),
        ("full", ["c"], {"adapters_running": names("b"), "max_adapters": 2}),
        ("fits", ["b", "b"], {"adapters_running": names("b"), "max_adapters": 2}),
        ("full", [], {"max_adapters": 0}),
    ],
)
def test_how_an_adapter_stands(stands, sent, reading):
    """By the requests on their way and by the last reading; who says nothing counts as able."""
    assert place(load_with(sent, **reading), "a") == stands


def test_requests_are_counted_by_adapter_until_they_end():
    """Those of the base model are not."""
    load = load_with()
    bookings = [load.book(1, 0, 0.0, adapter=adapter) for adapter in ("a", "a", "b", "")]
    assert load.adapters == {"a": 2, "b": 1}
    assert in_use(load) == {"a", "b"}
    for booking in bookings:
        booking.end(1.0)
    assert load.adapters == {}


def test_a_404_counts_until_a_newer_list_has_the_adapter():
    """The list of before may have been read before somebody unloaded it."""
    listed = names("base", "a")
    load = load_with(models=listed)
    load.lacks("a", 0.0)
    assert place(load, "a") == "unknown"
    load.read(EngineReading(at=1.0, models=listed))
    assert place(load, "a") == "unknown"
    load.read(EngineReading(at=2.0, models=frozenset({"base", "a", "b"})))
    assert place(load, "a") == "fits"


def test_a_404_counts_for_a_while():
    """Without a list of models, nothing else would end it; a restart does too."""
    load = load_with()
    load.lacks("a", 0.0)
    load.sweep(59.0)
    assert place(load, "a") == "unknown"
    load.sweep(61.0)
    assert place(load, "a") == "fits"
    load.lacks("a", 62.0)
    load.models.clear()
    assert place(load, "a") == "fits"
