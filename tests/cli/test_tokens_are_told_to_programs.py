"""`headgate apiserver token ... -o json`."""

import json
import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from headgate.cli import main


def token(*words: str) -> Any:
    result = CliRunner().invoke(main, ["apiserver", "token", *words, "-o", "json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_token_is_made_and_listed(tmp_path: Path) -> None:
    """The token itself is told once."""
    made = token("create", "eve", "--state", str(tmp_path))
    assert (made["name"], made["role"], made["token"][:3]) == ("eve", "read-only", "hg_")
    (listed,) = token("list", "--state", str(tmp_path))
    assert listed.keys() == {"name", "role", "created"}
    assert (listed["name"], listed["role"]) == ("eve", "read-only")


def test_tokens_are_listed_as_objects_are(tmp_path: Path) -> None:
    """Columns as wide as they must be, three blanks between them, times as in Kubernetes."""
    token("create", "eve", "--state", str(tmp_path))
    token("create", "a-much-longer-name-than-most", "--admin", "--state", str(tmp_path))
    result = CliRunner().invoke(main, ["apiserver", "token", "list", "--state", str(tmp_path)])
    listed = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", result.stdout)
    assert sorted(listed.splitlines()) == [
        "NAME                           ROLE        CREATED",
        "a-much-longer-name-than-most   admin       TIME",
        "eve                            read-only   TIME",
    ]
