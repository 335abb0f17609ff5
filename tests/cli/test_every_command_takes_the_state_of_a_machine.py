"""--state names a machine: each command that talks to an API server goes to the server of that machine."""

from __future__ import annotations

import http.server
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from headgate.cli import main

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: x
contexts: [{{name: x, context: {{cluster: x}}}}]
clusters: [{{name: x, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
"""
OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"

ASKS = {
    "apply": ["-f", "object.yaml"],
    "serve": ["hf://o/m", "--no-wait"],
    "get": ["configmaps"],
    "describe": ["configmaps"],
    "delete": ["configmap", "x", "--no-wait"],
    "validate": ["-f", "object.yaml"],
    "import": [],
    "route explain": ["--model", "m"],
    "autoscale explain": ["b"],
    "plan explain": [],
    "plan what-if": ["--slo-ttft", "300"],
    "flow": [],
    "key create": ["team-a", "--namespace", "n"],
    "key list": ["--namespace", "n"],
    "key rotate": ["i", "--namespace", "n"],
    "key revoke": ["i", "--namespace", "n"],
    "gateway": ["--port", "0", "--metrics-port", "0", "--admin-port", "0"],
    "picker": ["--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"],
    "body-router": ["--grpc-port", "0", "--grpc-health-port", "0", "--metrics-port", "0"],
    "node": ["--node-name", "n"],
    "controller": [],
    "webhook": ["--name", "n", "--configuration", "c", "--secret", "s", "--lease", "l", "--port", "0"],
}
"""The words of a call of each command that talks to a server; all of them fail, as this one knows nothing."""
KEEPS = {"up", "apiserver", "apiserver token create", "apiserver token list", "apiserver token revoke"}
"""Commands that keep the directory themselves."""
ALONE = {
    "autoscale replay",
    "bench",
    "download",
    "runtime",
    "simulate as",
    "cache list",
    "cache verify",
    "cache prune",
    "simulate engine",
    "simulate fleet",
    "simulate profiles",
    "simulate trace",
    "explain-field",
    "plan solve",
    "profile",
    "crds",
    "convert",
    "completion",
    "health",
    "version",
}
"""Commands that talk to no server of a machine."""


def commands() -> dict[str, click.Command]:
    """Every command by its words, groups that are commands as well included."""
    found: dict[str, click.Command] = {}

    def walk(command: click.Command, words: list[str]) -> None:
        if isinstance(command, click.Group):
            if command.invoke_without_command:
                found[" ".join(words)] = command
            for name in command.list_commands(click.Context(command)):
                inner = command.get_command(click.Context(command), name)
                assert inner
                walk(inner, [*words, name])
        else:
            found[" ".join(words)] = command

    walk(main, [])
    return found


@dataclass
class Machine:
    """A server that answers 404 to everything, and the state directories that name it, or nobody."""

    state: Path
    asked: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "elsewhere"))
    monkeypatch.delenv("HEADGATE_STATE", raising=False)
    (tmp_path / "elsewhere").write_text(KUBECONFIG.format(port=9))
    (tmp_path / "object.yaml").write_text(OBJECT)
    made = Machine(tmp_path / "machine")

    class Nothing(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.asked.set()
            self.send_response(404)
            self.send_header("content-length", "0")
            self.end_headers()

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815 (the names are http.server's)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        made.state.mkdir()
        port = server.server_address[1]
        (made.state / "kubeconfig").write_text(KUBECONFIG.format(port=port))
        (made.state / "gateway").write_text(f"http://127.0.0.1:{port}\n")
        yield made
        server.shutdown()
        thread.join()


def until_asked(machine: Machine, words: list[str]) -> bool:
    """Runs a command in a process of its own until it has asked the server, or ends; whether it asked."""
    command = [sys.executable, "-m", "headgate", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not machine.asked.wait(0.1):
            pass
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
    return machine.asked.is_set()


def test_every_command_is_of_one_of_these_kinds() -> None:
    """A new command either takes --state, or is listed here as one that has no use for it."""
    assert set(commands()) == ASKS.keys() | KEEPS | ALONE


@pytest.mark.parametrize("words", sorted(ASKS.keys() | KEEPS))
def test_there_is_one_option_state(words: str) -> None:
    """The same words, default and variable everywhere."""
    (state,) = [each for each in commands()[words].params if each.name == "state"]
    (of_up,) = [each for each in commands()["up"].params if each.name == "state"]
    shown = ("opts", "default", "envvar", "help")
    assert [getattr(state, name) for name in shown] == [getattr(of_up, name) for name in shown]


@pytest.mark.parametrize("words", sorted(ASKS))
def test_state_names_the_server(machine: Machine, words: str) -> None:
    """It goes before $KUBECONFIG."""
    assert until_asked(machine, [*words.split(), "--state", str(machine.state), *ASKS[words]])


@pytest.mark.parametrize("words", sorted(set(ASKS) - {"validate"}))
def test_the_variable_names_the_server(machine: Machine, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no $KUBECONFIG goes before it. (`validate` asks no server unless it is told to.)"""
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HEADGATE_STATE", str(machine.state))
    assert until_asked(machine, [*words.split(), *ASKS[words]])


def test_a_state_without_a_server_is_told(machine: Machine, tmp_path: Path) -> None:
    """The file that is missing, and how to get one."""
    result = CliRunner().invoke(main, ["get", "pods", "--state", str(tmp_path / "none")])
    assert result.exit_code == 1
    assert f"there is no file {tmp_path / 'none' / 'kubeconfig'}\nThat is from --state." in result.stderr
    assert f"`headgate up --state {tmp_path / 'none'}` starts a server there" in result.stderr
    result = CliRunner().invoke(main, ["flow", "--state", str(tmp_path / "none")])
    assert (result.exit_code, "no gateway is recorded in" in result.stderr) == (1, True)


def test_a_group_passes_its_state_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`apiserver --state DIR token ...` and `apiserver token ... --state DIR` are the same."""
    monkeypatch.chdir(tmp_path)
    for number, words in enumerate(
        (
            ["apiserver", "--state", "one", "token", "create", "x"],
            ["apiserver", "token", "create", "x", "--state", "two"],
            ["apiserver", "token", "create", "x"],
        )
    ):
        environment = {"HEADGATE_STATE": "three"} if number == 2 else {}
        assert CliRunner().invoke(main, words, env=environment).exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["one", "three", "two"]
