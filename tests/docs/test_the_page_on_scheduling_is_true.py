"""docs/scheduling.md has every plugin, the example as it is, and commands that print what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

from headgate.scheduling import configuration
from headgate.scheduling.plugins.attributes import FIGURES
from headgate.scheduling.plugins.catalogue import KTHENA, PICKER

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scheduling.md").read_text()
COMMAND = re.compile(r"^```console\n\$ (headgate .*)\n((?:.*\n)*?)```$", re.M)


def test_every_plugin_policy_and_figure_is_in_it() -> None:
    """One that is added without a line there fails."""
    names = {*PICKER, *KTHENA, *configuration.NAMES, *FIGURES}
    assert {name for name in names if f"`{name}`" not in PAGE} == set()
    alphas = {name for name, kind in PICKER.items() if kind.alpha}
    assert alphas == set(re.findall(r"^\| `([a-z-]+)` \(alpha\)", PAGE, re.M))


def test_the_example_is_the_file() -> None:
    """Which a test installs and runs."""
    example = (ROOT / "examples" / "scheduling" / "energy_scorer.py").read_text()
    assert f"```python\n{example}```" in PAGE


def test_commands_print_what_the_page_says() -> None:
    """As an operator types them."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    found = COMMAND.findall(PAGE)
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
