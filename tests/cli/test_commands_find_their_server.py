"""Which API server a command talks to, what it says without one, and how it ends when told to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.cli.objects.connecting import Server

NOWHERE = """\
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x}}]
clusters: [{name: x, cluster: {server: "http://127.0.0.1:9"}}]
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home and a working directory without any kubeconfig."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "HEADGATE_STATE"):
        monkeypatch.delenv(name, raising=False)


def test_the_order_of_kubeconfigs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option, $KUBECONFIG with all of its files, the machine's own, then the usual ones."""
    assert Server(None).files == []
    own = Path(".headgate/kubeconfig")
    own.parent.mkdir()
    own.write_text(NOWHERE)
    for empty in ("", os.pathsep):
        monkeypatch.setenv("KUBECONFIG", empty)
        assert Server(None).files == [own]
    monkeypatch.setenv("KUBECONFIG", f"one{os.pathsep}{os.pathsep}{tmp_path / 'two'}")
    assert Server(None).files == [Path("one"), tmp_path / "two"]
    assert Server(Path("given")).files == [Path("given")]


def test_files_that_do_not_exist_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of $KUBECONFIG, all of them."""
    monkeypatch.setenv("KUBECONFIG", f"one{os.pathsep}two")
    result = CliRunner().invoke(main, ["get", "pods"])
    assert result.exit_code == 1
    assert "there is no file one or two\nThat is from $KUBECONFIG (one:two)." in result.stderr


def test_without_a_server_it_says_where_it_looked_and_how_to_start_one() -> None:
    """One message, no traceback, exit code 1."""
    result = CliRunner().invoke(main, ["get", "pods"])
    assert result.exit_code == 1
    assert "Tried --kubeconfig, $KUBECONFIG, .headgate/kubeconfig, " in result.stderr
    assert "Start a server with `headgate up`" in result.stderr


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    """With the file that named it, and how to start one."""
    (tmp_path / "config").write_text(NOWHERE)
    result = CliRunner().invoke(main, ["get", "pods", "--kubeconfig", str(tmp_path / "config")])
    assert result.exit_code == 1
    assert f"no response from the API server that {tmp_path / 'config'} names" in result.stderr
    assert "`headgate up` starts one" in result.stderr


def test_credentials_that_are_refused_are_explained(kubeconfig: Path, tmp_path: Path) -> None:
    """401 says what to do."""
    wrong = tmp_path / "wrong"
    text = kubeconfig.read_text()
    token = next(line for line in text.splitlines() if "token:" in line).partition("token:")[2].strip()
    wrong.write_text(text.replace(token, "nonsense"))
    result = CliRunner().invoke(main, ["get", "pods", "--kubeconfig", str(wrong)])
    assert result.exit_code == 1
    assert "from the server (Unauthorized)" in result.stderr
    assert "`headgate up` writes new ones" in result.stderr


def test_completion_asks_the_server(headgate, route) -> None:
    """Kinds, names of their objects, namespaces."""
    headgate("apply", "-f", "-", stdin=route("chat"))

    def completed(*words: str) -> list[str]:
        line = ["headgate", "get", "--kubeconfig", str(headgate.kubeconfig), "-n", headgate.namespace, *words]
        environment = {
            "_HEADGATE_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(line),
            "COMP_CWORD": str(len(line) - 1),
        }
        result = CliRunner().invoke(
            main, [], env=environment, prog_name="headgate", complete_var="_HEADGATE_COMPLETE"
        )
        return [entry.partition(",")[2] for entry in result.stdout.splitlines()]

    assert "modelroutes" in completed("modelr")
    assert completed("mr", "ch") == ["chat"]
    assert completed("mr/ch") == ["mr/chat"]
    assert completed("pods,modelser") == ["pods,modelservers"]


def test_completion_without_a_server_knows_our_kinds() -> None:
    """It never complains, and never waits long."""
    environment = {
        "_HEADGATE_COMPLETE": "bash_complete",
        "COMP_WORDS": "headgate get modelr",
        "COMP_CWORD": "2",
    }
    result = CliRunner().invoke(
        main, [], env=environment, prog_name="headgate", complete_var="_HEADGATE_COMPLETE"
    )
    assert result.stdout == "plain,modelroutes\n"


def test_a_watch_tells_changes_until_ctrl_c(headgate, route) -> None:
    """Rows go on below the list; SIGINT ends it in silence with 130."""
    headgate("apply", "-f", "-", stdin=route("a"))
    command = [sys.executable, "-m", "headgate", "get", "mr", "-w", "-o", "name"]
    options = ["--kubeconfig", str(headgate.kubeconfig), "-n", headgate.namespace]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "modelroute.networking.volcano.sh/a\n"
        headgate("apply", "-f", "-", stdin=route("b"))
        assert process.stdout.readline() == "modelroute.networking.volcano.sh/b\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")


def test_a_closed_pipe_ends_a_command_in_silence(tmp_path: Path) -> None:
    """As `headgate ... | head -1` does; the exit code is that of SIGPIPE."""
    (tmp_path / "bad.yaml").write_text("a: [\n---\n" * 2000)
    command = [sys.executable, "-m", "headgate", "validate", str(tmp_path / "bad.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    assert (process.returncode, errors) == (141, "")
