"""docs/api-server.md has the differences that tools/compare_servers knows."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api-server.md"
CHECK = """
import sys, pathlib
import table
text = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
assert table.rendered(text) == text, "write it anew with `python tools/compare_servers table`"
assert table.rendered(text.replace("| They have both. |", "| |")) == text
"""


def test_the_table_is_that_of_the_data() -> None:
    """An entry of differences.yaml that is not on the page is found here."""
    done = subprocess.run(
        [sys.executable, "-c", CHECK, PAGE],
        env={"PYTHONPATH": str(ROOT / "tools" / "compare_servers")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
