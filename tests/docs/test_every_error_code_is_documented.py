"""Whoever meets an error of the gateway finds its code in the table of docs/gateway.md."""

import ast
from pathlib import Path

from headgate.requests.queueing import reasons

ROOT = Path(__file__).parents[2]
DROPPED = set(reasons.CODES.values()) - {"client_gone"}
SOURCES = [ROOT / "src" / "headgate" / room for room in ("gateway", "dataplane")]


def _codes() -> set[str]:
    """What is given as `code` to a refusal, wherever one is made, and other ends of requests."""
    found = {"upstream_lost", "idle_timeout"} | DROPPED
    for file in (file for source in SOURCES for file in source.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "code" and isinstance(node.value, ast.Constant):
                found.add(str(node.value.value))
    return found


def test_every_code_is_in_the_table_of_errors():
    """A code that is added without a line there fails."""
    table = (ROOT / "docs" / "gateway.md").read_text().partition("## Errors")[2].partition("\n## ")[0]
    codes = _codes()
    assert len(codes) > 25
    assert {code for code in codes if f"`{code}`" not in table} == set()
