"""docs/external-providers.md: its commands on other ports, with the files of examples/provider."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from headgate.dataplane.providers import provider_file
from headgate.requests.providers import PATHS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "external-providers.md").read_text()
PATIENCE_S = 90.0


def test_the_page(tmp_path: Path, unused_tcp_port_factory: Callable[[], int]) -> None:
    """The provider responds over TLS, with its key, and the response says so; no process shows the key."""
    provider, gateway, ask = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    ports = {str(port): str(unused_tcp_port_factory()) for port in (8003, 8080, 8082, 8443, 9091)}

    def moved(text: str) -> str:
        for port, other in ports.items():
            text = text.replace(f":{port}", f":{other}").replace(f"port {port}", f"port {other}")
        return text

    shutil.copytree(ROOT / "examples" / "provider", tmp_path / "examples" / "provider")
    file = tmp_path / "examples" / "provider" / "providers.yaml"
    file.write_text(moved(file.read_text()))
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    own = f"HEADGATE_LISTEN_PORT={ports['8080']} HEADGATE_METRICS_PORT=0 HEADGATE_ADMIN_PORT=0 "
    script = (
        f"trap 'kill $(jobs -p); wait' EXIT; {moved(provider)}"
        f"until [ -f .headgate/cloud/tls/ca.crt ]; do sleep 0.1; done\n{own}{gateway.rstrip()} & wait"
    )
    log = tmp_path / "log"
    with log.open("wb") as output:
        servers = subprocess.Popen(
            ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            done = subprocess.run(
                ["bash", "-c", moved(ask)], capture_output=True, text=True, env=environment, check=False
            )
            if done.stdout.startswith("HTTP/1.1 200"):
                break
            assert time.monotonic() < deadline, done.stdout + log.read_text()
            time.sleep(0.2)
    finally:
        servers.terminate()
        servers.wait(PATIENCE_S)
    for line in re.findall(r"^x-headgate-.*$", PAGE, re.MULTILINE):
        assert line in done.stdout
    key = (tmp_path / ".headgate" / "cloud.key").read_text().strip()
    assert key
    assert key not in log.read_text()


def test_the_file_of_the_page_is_valid(tmp_path: Path) -> None:
    """As is that of the example, but for its CA."""
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "providers.yaml"
    file.write_text(shown)
    assert [each.provider.name for each in provider_file.read(file)] == ["openai", "anthropic"]
    example = yaml.safe_load((ROOT / "examples" / "provider" / "providers.yaml").read_text())
    del example["cloud"]["ca_file"]
    file.write_text(yaml.safe_dump(example))
    assert provider_file.problems(str(file)) == []


def test_the_page_has_each_field_and_path() -> None:
    """Nothing that can be written, or that is sent, is left out."""
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert sorted(set(rows)) == sorted(provider_file.Written.__struct_fields__)
    (paths,) = re.findall(r"^\| path \| (.*) \|$", PAGE, re.MULTILINE)
    assert set(re.findall(r"`(/v1/\S+)`", paths)) == {path for each in PATHS.values() for path in each}
