"""The commands of docs/gateway-api.md print what the page says, on two workers."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gateway-api.md").read_text()
MANIFEST = (ROOT / "examples" / "gateway-api" / "gateway.yaml").read_text()
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.whole


def commands():
    """Each command with the text below it."""
    for block in BLOCK.findall(PAGE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output.rstrip("\n")


def test_commands_print_what_the_page_says(new_machine, tmp_path, unused_tcp_port_factory, eventually):
    """And after the Gateway has moved to another port."""
    manifests, ports = tmp_path / "gateway.yaml", [str(unused_tcp_port_factory()) for _ in range(2)]
    manifests.write_text(MANIFEST.replace("8088", ports[0]))
    machine = new_machine(manifests)
    machine.flags = ("--workers", "2")
    machine.start()

    def printed(command: str, port: str) -> str:
        done = subprocess.run(
            ["bash", "-c", command.replace("8088", port)],
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=100,
        )
        return done.stdout.rstrip("\n")

    found = list(commands())
    assert len(found) == 4
    eventually(lambda: printed(found[0][0], ports[0]) == found[0][1])
    for _ in range(4):  # whichever worker it is
        assert [printed(command, ports[0]) for command, _ in found] == [output for _, output in found]
    machine.kubectl("get", "gateway", "front")
    moved = MANIFEST.replace("8088", ports[1])
    machine.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=moved)
    eventually(lambda: printed(found[0][0], ports[1]) == found[0][1])
    eventually(lambda: printed(found[0][0], ports[0]) == "")
