import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.loadtest import Record, Slo, Tally, records
from headgate.loadtest.records import OTHERS, Windows


def record(number: int, due_s: float = 0.0, outcome: str = "ok", endpoint: str = "") -> Record:
    return Record(number, due_s, 0.0, outcome, 0.1, 0.01, 0.2, 10, 5, 4, endpoint, True)


def test_records_are_thinned_out_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers stay in each run, so that they can be compared; counts have all requests."""
    monkeypatch.setattr(records, "MAX_RECORDS", 100)
    tally = Tally()
    for number in range(1000):
        tally.take(record(number), [0.01] * 4)
    assert [each.number for each in tally.records] == list(range(0, 1000, 16))
    assert tally.requests == tally.ttft.count == 1000
    assert tally.itl.count == 4000
    assert tally.good == 1000


def test_windows_become_wider() -> None:
    """And keep all requests."""
    windows = Windows()
    for second in range(10_000):
        windows.at(float(second)).requests += 1
    assert len(windows.parts) <= 240
    assert windows.width_s == 64.0
    assert [each.requests for each in windows.parts[:-1]] == [64] * (len(windows.parts) - 1)
    assert sum(each.requests for each in windows.parts) == 10_000


def test_kinds_and_endpoints_beyond_a_number_are_counted_together() -> None:
    """A server chooses both."""
    tally = Tally()
    for number in range(2000):
        tally.take(record(number, outcome=f"http {number}", endpoint=f"e{number}"), message="no")
    assert len(tally.errors) == 65
    assert tally.errors[OTHERS] == 2000 - 64
    assert len(tally.endpoints) == 513
    assert sum(each.failed for each in tally.endpoints.values()) == 2000


TAKEN = st.lists(
    st.tuples(st.floats(0, 5000), st.sampled_from(["ok", "timeout", "interrupted", "http 500"])), max_size=60
)


@given(TAKEN, st.integers(1, 4))
def test_processes_add_up(taken: list[tuple[float, str]], count: int) -> None:
    """Divided among processes or not, a run has the same counts, also after a way over a pipe."""
    whole, parts = Tally(), [Tally() for _ in range(count)]
    for number, (due_s, outcome) in enumerate(taken):
        each = record(number, due_s, outcome, f"e{number % 3}")
        for tally in (whole, parts[number % count]):
            tally.take(each, [0.01, 0.02], (10, 5), "why")
    total = Tally()
    for part in parts:
        total.add(msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=Tally))
    for name in (
        "requests",
        "interrupted",
        "errors",
        "good",
        "prompt_tokens",
        "cached_tokens",
        "asked_tokens",
    ):
        assert getattr(total, name) == getattr(whole, name)
    assert total.itl.counts == whole.itl.counts
    assert total.ttft.counts == whole.ttft.counts
    assert {name: each.requests for name, each in total.endpoints.items()} == {
        name: each.requests for name, each in whole.endpoints.items()
    }
    assert sorted(each.number for each in total.records) == [each.number for each in whole.records]
    assert total.windows.width_s == whole.windows.width_s
    assert [each.requests for each in total.windows.parts] == [each.requests for each in whole.windows.parts]


@pytest.mark.parametrize(
    ("slo", "is_met"),
    [
        (Slo(), True),
        (Slo(ttft_s=0.1, tpot_s=0.01, latency_s=0.2), True),
        (Slo(ttft_s=0.09), False),
        (Slo(tpot_s=0.009), False),
        (Slo(latency_s=0.19), False),
    ],
)
def test_objectives_are_upper_bounds(slo: Slo, is_met: bool) -> None:
    """Of each request; a failed one meets none."""
    assert slo.is_met(record(1)) is is_met
    assert not slo.is_met(record(1, outcome="timeout"))


def test_missing_times_meet_only_objectives_that_cannot_be_missed() -> None:
    """A response of one token has no time between tokens, but it has a first one."""
    single = Record(1, 0.0, 0.0, "ok", 0.1, None, 0.1, 10, 1)
    assert Slo(tpot_s=0.01).is_met(single)
    whole = Record(1, 0.0, 0.0, "ok", None, None, 0.1, 10, 1)
    assert not Slo(ttft_s=1.0).is_met(whole)
