"""docs/settings.md has the settings as the types have them, and its commands print what it says."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "settings.md"
COMMAND = re.compile(r"^```console\n\$ (headgate .*)\n((?:.*\n)*?)```$", re.M)


@pytest.fixture(scope="module")
def table() -> ModuleType:
    """The script that writes the table."""
    spec = importlib.util.spec_from_file_location("settings_table", ROOT / "tools" / "settings_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_that_of_the_types(table: ModuleType) -> None:
    """A default or a bound that changed without the page is found here."""
    text = PAGE.read_text()
    assert table.rendered(text) == text, "write it anew with `python tools/settings_table.py`"
    assert table.rendered(text.replace("| `16` |", "| `17` |")) == text


def test_commands_print_what_the_page_says() -> None:
    """Those that need no cluster."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = COMMAND.findall(PAGE.read_text())
    assert found
    for command, output in found:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout == output, command + done.stderr
