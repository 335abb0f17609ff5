"""The commands of docs/engines-by-url.md, as they are written there, on other ports."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "engines-by-url.md"
PATIENCE_S = 60.0


@pytest.fixture
def run(tmp_path: Path, unused_tcp_port_factory: Callable[[], int]) -> Iterator[Callable[..., str]]:
    """Runs a block of the page in a shell; in the background until it prints something."""
    ports = {str(port): str(unused_tcp_port_factory()) for port in (8001, 8002, 8080)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HEADGATE_LISTEN_PORT": ports["8080"]}
    environment |= {"HEADGATE_METRICS_PORT": "0", "HEADGATE_ADMIN_PORT": "0"}
    started: list[subprocess.Popen[bytes]] = []

    def run(block: str, until: str = "") -> str:
        for written, port in ports.items():
            block = block.replace(f":{written}", f":{port}").replace(f"--port {written}", f"--port {port}")
        log = tmp_path / f"{len(started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"trap 'kill $(jobs -p)' EXIT; {block.strip()} & wait" if until else block],
                cwd=tmp_path,
                env=environment,
                stdout=output,
                stderr=output,
            )
            started.append(process)
            if not until:
                assert process.wait(PATIENCE_S) == 0, log.read_text()
        deadline = time.monotonic() + PATIENCE_S
        while until and until not in log.read_text():
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        return log.read_text()

    yield run
    for process in started:
        process.terminate()
        process.wait(PATIENCE_S)


def test_the_page(run: Callable[..., str], tmp_path: Path) -> None:
    """From the engines to their objects, and a gateway of files."""
    text = PAGE.read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    engines, gateway, requests, _roles, of_files, to_cluster = blocks
    for line in engines.splitlines():
        run(line.removesuffix(" &"), until="simulating tiny")
    serving = run(gateway, until="is ready on")
    assert "127-0-0-1-" in serving
    assert "(vLLM) serves tiny" in serving
    assert run(requests).count('"tiny"') == 2
    assert "3 objects in 1 file: valid" not in serving
    printed = run(to_cluster)
    assert "3 objects in 1 file: valid" in printed
    (objects,) = re.findall(
        r"^```yaml\n# (objects/engines\.yaml)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    )
    (tmp_path / "objects").mkdir()
    (tmp_path / objects[0]).write_text(objects[1])
    assert "engines.yaml: objects in effect: 3" in run(
        f"HEADGATE_LISTEN_PORT=0 {of_files}", until="is ready on"
    )


def test_the_settings_of_the_page_are_valid(tmp_path: Path) -> None:
    """Those in its example of a file."""
    (text,) = re.findall(r"^```yaml\n(objects:.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    file = tmp_path / "gateway.yaml"
    file.write_text(text)
    command = [sys.executable, "-m", "headgate", "gateway", "--config", str(file), "--check-config"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.endswith("is valid\n")
