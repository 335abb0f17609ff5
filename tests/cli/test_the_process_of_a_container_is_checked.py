"""`headgate health` finds the health page of process 1 by its command line, and reports what it says."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli import health, main


@pytest.fixture
def server() -> Iterator[HTTPServer]:
    """Of a page /healthz that is fine, and of no other."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Pages) as made:
        threading.Thread(target=made.serve_forever).start()
        yield made
        made.shutdown()


def check(*words: str) -> Result:
    return CliRunner().invoke(main, ["health", *words], catch_exceptions=False)


@pytest.fixture
def process_1(tmp_path, monkeypatch) -> Callable[..., Result]:
    """Checks a process 1 with this command line."""

    def checked(*words: str) -> Result:
        file = tmp_path / "cmdline"
        file.write_bytes(b"".join(word.encode() + b"\0" for word in words))
        monkeypatch.setattr(health, "_COMMAND_LINE", file)
        return check()

    return checked


def test_a_page_says_whether_it_is_healthy(server):
    url = f"http://127.0.0.1:{server.server_port}"
    assert (result := check(f"{url}/healthz")).exit_code == 0
    assert result.output == f"{url}/healthz: ok\n"
    assert (result := check(f"{url}/readyz")).exit_code == 1
    assert result.output == f"{url}/readyz: returned 503\n"
    found = [{"page": f"{url}/readyz", "problem": "returned 503"}]
    assert json.loads(check("-o", "json", f"{url}/readyz").output) == found


def test_a_page_that_does_not_respond_is_not_healthy(held_port):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        result = check("--timeout", "0.5", f"http://127.0.0.1:{silent.getsockname()[1]}/healthz")
    assert result.exit_code == 1
    assert "no response within 0.5 s" in result.output
    assert time.monotonic() - began < 60
    assert check(f"http://127.0.0.1:{held_port()}/healthz").exit_code == 1
    assert check("nothing").exit_code == 1


def test_a_gateway_is_asked_at_its_admin_port(server, process_1, tmp_path, monkeypatch):
    """Of its flags, its file or the environment; on loopback if it listens on all addresses."""
    port, file = server.server_port, tmp_path / "gateway.yaml"
    file.write_text(f"admin: {{host: 0.0.0.0, port: {port}}}\n")
    python, program = "/opt/headgate/bin/python3", "/opt/headgate/bin/headgate"
    healthy = f"http://127.0.0.1:{port}/healthz: ok\n"
    assert process_1(python, program, "gateway", "--config", str(file)).output == healthy
    assert process_1(python, program, "gateway", "--admin-port", str(port), "--port=0").output == healthy
    assert process_1("/sbin/tini", "--", "headgate", "gateway", f"--admin-port={port}").output == healthy
    monkeypatch.setenv("HEADGATE_ADMIN_PORT", str(port))
    assert process_1(python, "-P", "-m", "headgate", "gateway").output == healthy
    assert process_1(program, "gateway", "--admin-port", "0").exit_code == 1
    file.write_text("admin: {port: eighty}\n")
    monkeypatch.delenv("HEADGATE_ADMIN_PORT")
    result = process_1(program, "gateway", "--config", str(file))
    assert result.exit_code == 1
    assert "admin.port" in result.output


def test_an_api_server_is_asked_with_the_authority_of_its_state(kubeconfig, process_1, tmp_path):
    state = str(kubeconfig.parent)
    assert process_1("headgate", "apiserver", "--state", state).exit_code == 0
    assert process_1("headgate", "apiserver", "--state", str(tmp_path)).exit_code == 1


def test_other_commands_are_healthy_while_they_run(process_1):
    assert (result := process_1("headgate", "controller", "--workers=4")).exit_code == 0
    assert result.output == "headgate controller runs; it has no health page\n"


def test_another_program_is_not_checked(process_1, monkeypatch):
    """It is no success either; nor is a machine without such a file."""
    result = process_1("/sbin/init", "splash")
    assert result.exit_code == 1
    assert result.output == (
        "Error: process 1 is not headgate, but /sbin/init; name the health page: headgate health URL\n"
    )
    monkeypatch.setattr(health, "_COMMAND_LINE", Path("/nowhere/cmdline"))
    assert "cannot read /nowhere/cmdline" in check().output
