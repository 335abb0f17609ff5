"""The attack bench measures a victim beside real attacks on a real install, and judges by its figures."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

import attacks
from attack import ATTACKS, Latencies
from attack.engines import FAULTS, FLOODS

BENCH = Path(__file__).resolve().parents[2] / "bench"


def row(**changes):
    """A row in which nobody was harmed, but for the changes."""
    well = {
        "attack": "any",
        "outcomes": {"503": 3},
        "quiet_p99_ms": 4.0,
        "attacked_p99_ms": 53.9,
        "slowest_ms": 60.0,
        "asked": 600,
        "failures": [],
        "memory_mb": 100,
        "peak_mb": 300,
        "bound_mb": 300,
        "cpu_s": 1.0,
        "seconds": 6.0,
    }
    return attacks.Row(**(well | changes))


@pytest.mark.parametrize(
    "changes", [{"attacked_p99_ms": 54.1}, {"failures": ["TimeoutError"]}, {"peak_mb": 301}]
)
def test_a_row_tells_harm(changes):
    """A victim that waits 50 ms longer, or fails, or memory past its bound is harm; anything less is not."""
    assert row().is_well
    assert not row(**changes).is_well


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


async def test_attacks_are_made_and_answered():
    """A client, an engine and a token attack one install, whose victim is served all the while."""
    chosen = [part for name in ("surrogates", "head without end", "watches") for part in ("--only", name)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, BENCH / "attacks.py", *chosen, "--seconds", "1", "--output", "json"),
        stdout=subprocess.PIPE,
    )
    told, _ = await process.communicate()
    rows = json.loads(told)
    assert len(rows) == 3
    for found in rows:
        assert sum(found["outcomes"].values()) > 0
        assert "the attacker failed" not in found["outcomes"]
        assert found["asked"] >= 50
        assert not found["failures"]
