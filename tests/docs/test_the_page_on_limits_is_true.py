"""The table of limits names settings and metrics that exist."""

import re
from pathlib import Path

import pytest

from headgate.gateway import settings

ROOT = Path(__file__).resolve().parents[2]
ROWS = [line for line in (ROOT / "docs/limits.md").read_text().splitlines() if line.startswith("| ")][2:]
METRICS = "".join((ROOT / "docs" / page).read_text() for page in ("metrics.md", "api-server.md"))


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: cells(row)[1][:40])
def test_a_row(row):
    """Five cells; each setting is one by its path, each metric is on the page of its process; where nothing
    is counted, the row says why, or that nothing is refused."""
    assert len(cells(row)) == 5
    assert all(cells(row))
    counted = cells(row)[4]
    assert counted == "-" or counted.startswith("none: ") or "`headgate_" in counted
    sections = {path.partition(".")[0] for path in settings.paths().values()}
    for section, name in re.findall(r"`([a-z_]+)\.([a-z_]+)`", row):
        if section in sections:
            assert f"{section}.{name}" in settings.paths().values()
    for metric in re.findall(r"`(headgate_\w+)", row):
        assert f"`{metric}`" in METRICS


def test_no_row_is_there_twice():
    """A bound is described in one place."""
    named = [tuple(cells(row)[:2]) for row in ROWS]
    assert len(set(named)) == len(named)
