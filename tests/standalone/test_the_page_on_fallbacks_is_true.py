"""docs/fallbacks.md: its commands on other ports, with the objects of examples/fallbacks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fallbacks.md").read_text()
PATIENCE_S = 60.0


def test_the_page(tmp_path: Path, unused_tcp_port_factory: Callable[[], int]) -> None:
    """Another model responds, and the response says so."""
    start, ask = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    ports = {str(port): str(unused_tcp_port_factory()) for port in (8001, 8002, 8080)}
    objects = tmp_path / "examples" / "fallbacks"
    shutil.copytree(ROOT / "examples" / "fallbacks", objects)
    written = objects / "objects.yaml"

    def moved(text: str) -> str:
        for port, other in ports.items():
            text = text.replace(f":{port}", f":{other}").replace(f"--port {port}", f"--port {other}")
        return text

    written.write_text(moved(written.read_text()))
    environment = {**os.environ, "HEADGATE_LISTEN_PORT": ports["8080"], "HEADGATE_METRICS_PORT": "0"}
    environment |= {"HEADGATE_ADMIN_PORT": "0"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = f"trap 'kill $(jobs -p); wait' EXIT; {moved(start)} wait"
    log = tmp_path / "log"
    with log.open("wb") as output:
        servers = subprocess.Popen(["bash", "-c", script], cwd=tmp_path, env=environment, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = subprocess.run(
                ["bash", "-c", moved(ask)], capture_output=True, text=True, env=environment, check=False
            )
            if "x-headgate-model: small" in done.stdout:
                break
            assert time.monotonic() < deadline, done.stdout + log.read_text()
            time.sleep(0.2)
    finally:
        servers.terminate()
        servers.wait(PATIENCE_S)
    assert done.stdout.startswith("HTTP/1.1 200")
    assert '"model":"small"' in done.stdout.replace(" ", "")
    for line in re.findall(r"^x-headgate-.*$", PAGE, re.MULTILINE):
        assert line in done.stdout


def test_the_explanation_of_the_page() -> None:
    """What it shows is printed."""
    command, shown = re.findall(r"^  \$ headgate (.*)\n  \.\.\.\n((?:  .*\n)+)  ```", PAGE, re.MULTILINE)[0]
    done = subprocess.run(
        [sys.executable, "-m", "headgate", *command.split()],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert textwrap.dedent(shown) in done.stdout


def test_the_example_is_that_of_the_page() -> None:
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    documents = list(yaml.safe_load_all((ROOT / "examples" / "fallbacks" / "objects.yaml").read_text()))
    assert yaml.safe_load(shown) in documents
