"""The page on engines and fleets from Python: its examples run."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "simulated-fleet.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_engine_of_the_page_serves_all(capsys):
    """It prints when it was done, and the longest time to a first token."""
    names: dict[str, object] = {}
    exec(EXAMPLES[0], names)
    assert len(names["run"].finished) == len(names["requests"])
    assert re.fullmatch(r"[0-9.]+ [0-9.]+\n", capsys.readouterr().out)


def test_the_fleet_of_the_page_serves_all(capsys):
    """It prints a summary of all of its requests."""
    names: dict[str, object] = {}
    exec(EXAMPLES[1], names)
    count = len(names["requests"])
    assert capsys.readouterr().out.startswith(f"Summary(requests={count}, served={count}, ")
