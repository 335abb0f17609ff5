"""`headgate up` reads the settings of its gateway from flags, environment and file, as the gateway does."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.whole


def test_ports_come_from_file_and_environment(
    new_machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port of the API from the file, that of metrics from a variable; the summary has the real one."""
    machine = new_machine()
    port, metrics_port = machine.ports.pop("port"), machine.ports.pop("metrics-port")
    file = tmp_path / "gateway.yaml"
    file.write_text(f"listen: {{port: {port}}}\nlogging: {{access_log: json}}\n")
    monkeypatch.setenv("HEADGATE_METRICS_PORT", str(metrics_port))
    machine.flags = ("--gateway-config", str(file))
    machine.start()
    assert f"The API is at http://127.0.0.1:{port}/v1" in machine.output
    machine.ports |= {"port": port, "metrics-port": metrics_port}
    assert machine.ask().status_code == 200
    assert machine.get("/metrics", "metrics-port").status_code == 200
    settings = machine.get("/debug/config", "admin-port").json()["settings"]
    assert settings["logging"]["access_log"] == "json"
    assert settings["clients"]["trusted_networks"] == ["127.0.0.1/32"], "only this machine can connect"
