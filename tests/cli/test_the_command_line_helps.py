"""Help, completion and mistakes: what a person sees before anything runs."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from headgate.cli import main

COMMANDS = [
    "up",
    "validate",
    "flow",
    "gateway",
    "apiserver",
    "node",
    "controller",
    "webhook",
    "simulate",
    "explain-field",
    "crds",
    "convert",
    "import",
    "completion",
    "version",
]


def test_help_names_every_command() -> None:
    """`headgate --help` lists the commands, the most useful first."""
    shown = CliRunner().invoke(main, ["--help"]).output
    places = [shown.index(f"\n  {command}") for command in COMMANDS]
    assert places == sorted(places)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_and_option_explains_itself(command: str) -> None:
    """No command without a sentence, no option without help."""
    found = main.get_command(None, command)  # type: ignore[arg-type]
    assert found is not None
    assert found.help
    assert [
        option.name for option in found.params if option.param_type_name == "option" and not option.help
    ] == []


def test_a_mistyped_command_is_refused_with_a_usage_line() -> None:
    """Exit code 2, as for every usage error, with the closest command, or all of them."""
    result = CliRunner().invoke(main, ["upp"])
    assert result.exit_code == 2
    assert "Unknown command 'upp'. Did you mean up?" in result.output
    assert "Commands: up, serve, apply, get, describe, " in CliRunner().invoke(main, ["xyzzy"]).output


@pytest.mark.parametrize("command", ["get", "describe"])
def test_a_kind_that_was_forgotten_is_asked_for(command: str) -> None:
    """With words that work."""
    result = CliRunner().invoke(main, [command], prog_name="headgate")
    assert result.exit_code == 2
    told = f"missing KIND: for example, `headgate {command} modelroutes`, or `headgate {command} all`."
    assert told in result.output


def leaves(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command
        if isinstance(command, click.Group):
            yield from leaves(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


RUNNING = {"up", "gateway", "picker", "body-router", "node", "controller", "webhook", "runtime"}
RUNNING |= {"simulate engine", "simulate as", "simulate fleet"}
SILENT = {"completion", "apiserver token revoke", "key revoke"}


def test_whatever_prints_prints_json() -> None:
    """`--output json` of every command that ends by itself and has something to tell."""
    lacking = [
        name
        for name, command in leaves(main)
        if name not in RUNNING | SILENT
        and not any(
            "--output" in option.opts and "json" in getattr(option.type, "choices", ())
            for option in command.params
        )
    ]
    assert lacking == []


def test_up_tells_all_errors_of_its_manifests_before_it_starts(tmp_path) -> None:
    """A mistake in a file is found before a process is started."""
    (tmp_path / "a.yaml").write_text("kind: X\n")
    result = CliRunner().invoke(main, ["up", str(tmp_path), "--state", str(tmp_path / "state")])
    assert result.exit_code == 1
    assert "a.yaml:1:1: lacks apiVersion and metadata.name" in result.output
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    """Each script asks the command itself for what fits."""
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_HEADGATE_COMPLETE" in result.output


def test_a_gateway_without_an_api_server_says_where_it_looked(tmp_path) -> None:
    """A kubeconfig that does not exist is one line, not a traceback."""
    missing = tmp_path / "none"
    ports = ("--port", "0", "--metrics-port", "0", "--admin-port", "0")
    done = subprocess.run(
        [sys.executable, "-m", "headgate", "gateway", *ports, "--kubeconfig", str(missing)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert str(missing) in done.stderr
    assert "Traceback" not in done.stderr


def test_help_answers_quickly() -> None:
    """Help imports no server, and nothing else that takes long."""
    heavy = ["asyncio", "cryptography", "httpx2", "lightkube", "rich", "starlette", "uvicorn", "yaml"]
    probe = f"""
import sys
from click.testing import CliRunner
from headgate.cli import main
assert CliRunner().invoke(main, ["gateway", "--help"]).exit_code == 0
found = [name for name in {heavy} if name in sys.modules]
sys.exit(" ".join(found) or 0)
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
