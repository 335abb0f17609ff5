"""Reports come from the network: nothing in them can take more memory or time than a bound."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate import fleet, routing
from headgate.fleet import sharing
from headgate.fleet.prefix import PrefixIndex
from headgate.fleet.sharing import journal, members, reports

POD = routing.Endpoint("default/pod-0", "127.0.0.1", 8000)
ADDRESS = reports.Address(POD.name, POD.host, POD.port)


@given(st.binary(max_size=200))
def test_anything_else_is_refused(data):
    """Bytes that are no report raise ValueError, and nothing else."""
    try:
        sharing.decode(data)
    except ValueError as error:
        assert "not a report" in str(error)


@pytest.mark.parametrize(
    "wrong",
    [
        [1, True, [], [[0, 1]], []],
        [0, True, [], [], []],
        [1, True, [["a", "b", 70_000]], [], []],
        [1, True, [["a", "b", 1]], [[0, -1]], []],
        [1, True, [["a", "b", 1]], [[0, 1, 2**60]], []],
        [1, True, [["a" * 600, "b", 1]], [], []],
        [1, True, [["a", "b", 1]], [], [[0, b"x" * (reports.MAX_PREFIX_BYTES + 1)]]],
        [1, True, [["a", "b", 1]], [[0, 1, 1, 1, 1, 1, 1, 1, 1, float("nan")]], []],
        [1, True, [["a", "b", 1]], [], [[1, b""]]],
    ],
)
def test_numbers_have_bounds(wrong):
    """Negative, huge and dangling numbers are refused."""
    with pytest.raises(ValueError, match="not a report"):
        sharing.decode(msgspec.msgpack.encode(wrong))


def test_members_are_bounded():
    """Reports of more members than MAX_MEMBERS are ignored, and counted."""
    ledger = fleet.Ledger()
    ledger.load(POD)
    told = sharing.Members(ledger, PrefixIndex())
    for who in range(members.MAX_MEMBERS + 3):
        told.hear(who, sharing.Report(1, True, [ADDRESS], [sharing.Load(0, 1)]), 0.0)
    assert ledger.load(POD).requests == members.MAX_MEMBERS
    assert told.statistics()["ignored"] == 3


def test_endpoints_of_a_member_are_bounded(monkeypatch):
    """A member cannot fill the memory with ever new endpoints between two whole reports."""
    monkeypatch.setattr(members, "MAX_ENDPOINTS", 10)
    told = sharing.Members(fleet.Ledger(), PrefixIndex())
    for number in range(1, 100):
        address = reports.Address(f"pod-{number}", "h", 1)
        told.hear("a", sharing.Report(number, False, [address], [sharing.Load(0, 1)]), 0.0)
    assert told.statistics()["loads"] == 10


def test_a_journal_that_nobody_reads_is_bounded():
    """Prompts beyond the bound are dropped, oldest first."""
    kept, load = journal.Journal(), fleet.Ledger().load(POD)
    for number in range(journal.MAX_UNSENT + 5):
        kept.sent([number], load)
    taken = kept.take()
    assert kept.dropped == 5
    assert [taken[0][1], taken[-1][1]] == [[5], [journal.MAX_UNSENT + 4]]
    assert not kept.take()
    assert len(kept.recent()) == journal.MAX_RECENT


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_hashes_survive_packing(hashes):
    """All 64 bits of a hash arrive."""
    assert journal.unpacked(journal.packed(hashes)) == hashes
    assert journal.unpacked(journal.packed(hashes) + b"abc") == hashes
