"""The attack bench measures a victim beside real attacks on a real install, and judges by its figures."""

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

import attacks
from attack import ATTACKS, Latencies
from attack.engines import FAULTS, FLOODS

BENCH = Path(__file__).resolve().parents[2] / "bench"


def window(**changes):
    """One in which nobody was harmed, but for the changes."""
    well = {
        "subject": "headgate",
        "outcomes": {"503": 3},
        "quiet_p99_ms": 4.0,
        "attacked_p99_ms": 53.9,
        "slowest_ms": 60.0,
        "asked": 600,
        "failures": [],
        "memory_mb": 100,
        "peak_mb": 300,
        "cpu_s": 1.0,
        "attacker_cpu_s": 0.5,
        "seconds": 6.0,
    }
    return attacks.Window(**(well | changes))


def row(peer=None, control=None, **changes):
    return attacks.Row("any", 300, window(**changes), control or window(subject="control"), peer)


HARM = [{"attacked_p99_ms": 54.1}, {"failures": ["TimeoutError"]}, {"peak_mb": 301}]


@pytest.mark.parametrize("changes", HARM)
def test_a_row_tells_harm(changes):
    """A victim that waits 50 ms longer, or fails, or memory past its bound is harm; anything less is not."""
    assert row().is_well
    assert not row(**changes).is_well
    assert row(**changes).verdict == "HARMED"


@pytest.mark.parametrize("changes", HARM)
def test_peers_are_not_judged(changes):
    """What becomes of a peer is told, and is no failure of Headgate."""
    assert row(peer=window(**changes)).is_well


def test_a_machine_that_is_too_busy_shows(capsys):
    """Where the victim is slow without Headgate as well, the verdict says so."""
    busy = row(attacked_p99_ms=60.0, control=window(subject="control", attacked_p99_ms=60.0))
    assert busy.verdict == "HARMED, and the control"


def test_the_page_gets_the_table_of_a_run():
    """What stands between the marks of the page is replaced by the recorded run, and nothing else is."""
    run = {
        "at": "2026-01-02T00:00:00+00:00",
        "load": 0.25,
        "commit": "abc",
        "seconds": 6.0,
        "machine": {"cpu": "Some CPU", "cores": 2, "kernel": "6.1-x", "python": "3.11.2"},
        "rows": [asdict(row(peer=window(subject="nginx 1.22.1", failures=["TimeoutError"])))],
    }
    before, after = f"above\n{attacks.BEGINS}", f"{attacks.ENDS}below\n"
    page = attacks.with_table(f"{before}old\n{after}", json.loads(json.dumps(run)))
    assert page.startswith(f"{before}Some CPU, 2 cores, load 0.2 before the run, Linux 6.1, Python 3.11.2")
    assert page.endswith(after)
    assert "old" not in page
    assert "| any | headgate | 3 503 | 4.0 | 53.9 | +49.9 |" in page
    assert "|  | nginx 1.22.1 | 3 503 |" in page
    assert "1 of 600" in page


def test_the_page_has_a_place_for_the_table():
    """A recorded run is written to docs/benchmarks.md."""
    page = attacks.PAGE.read_text()
    assert page.index(attacks.BEGINS) < page.index(attacks.ENDS)


def test_percentiles_count_from_the_slowest():
    """The 99th percentile of 1 to 100 ms is 100: one request of a hundred took as long."""
    latencies = Latencies([float(number) for number in range(100, 0, -1)])
    assert latencies.percentile(0.99) == 100.0
    assert latencies.percentile(0.5) == 51.0


def test_every_attack_has_a_name_of_its_own():
    """Attackers are found by their name in another process."""
    names = [attack.name for attack in ATTACKS]
    assert len(set(names)) == len(names)
    assert len(names) >= 10 + len(FAULTS) + len(FLOODS)


@pytest.mark.whole
async def test_attacks_are_made_and_answered():
    """A client, an engine, engines of their own and a token attack one install, whose victim is served."""
    names = ("surrogates", "head without end", "empty lists in a list", "writes of one")
    chosen = [part for name in names for part in ("--only", name)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, BENCH / "attacks.py", *chosen, "--seconds", "1", "--no-peers", "--output", "json"),
        stdout=subprocess.PIPE,
    )
    told, _ = await process.communicate()
    rows = json.loads(told)
    assert len(rows) == len(names)
    for row in rows:
        found = row["ours"]
        assert sum(found["outcomes"].values()) > 0
        assert "the attacker failed" not in found["outcomes"]
        assert "the attacker failed" not in row["control"]["outcomes"]
        assert found["asked"] >= 10
        assert not found["failures"]
