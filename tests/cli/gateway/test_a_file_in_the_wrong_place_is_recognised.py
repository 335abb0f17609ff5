"""A file given for another: the message says what it is, and which setting or command takes it."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headgate.cli import main

ROUTER = "scheduler:\n  pluginConfig: []\nauth:\n  issuer: https://issuer.example\n"
PICKER = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: queue-scorer}]\n"
SETTINGS = "listen:\n  port: 8090\n"
ROUTE = "apiVersion: networking.volcano.sh/v1alpha1\nkind: ModelRoute\nmetadata: {name: chat}\nspec: {}\n"
KUBECONFIG = "apiVersion: v1\nkind: Config\nclusters: []\nusers: []\n"


def config_map(text: str, key: str = "routerConfiguration") -> str:
    indented = "".join(f"    {line}\n" for line in text.splitlines())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: it}}\ndata:\n  {key}: |-\n{indented}"


def run(*words: str) -> Result:
    return CliRunner().invoke(main, [*words], catch_exceptions=False)


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        (ROUTER, "the scheduler configuration of Kthena's router", "(--scheduling-config-file {file})"),
        (PICKER, "a scheduler configuration (EndpointPickerConfig)", "(--scheduling-config-file {file})"),
        (
            config_map(ROUTER),
            "the scheduler configuration of Kthena's router, in a ConfigMap",
            "save the text of data.routerConfiguration as a file, and name that in the setting "
            "scheduling.config_file (--scheduling-config-file FILE)",
        ),
        (
            config_map(SETTINGS, "gateway.yaml"),
            "the gateway's settings, in a ConfigMap",
            "save the text of data.gateway.yaml as a file, and pass that with --config FILE",
        ),
        (ROUTE, "a manifest of kind ModelRoute", "headgate apply -f {file}"),
        (f"{ROUTE}---\n{ROUTE}", "a manifest of kind ModelRoute", "headgate apply -f {file}"),
        (KUBECONFIG, "a kubeconfig", "(--kubeconfig {file})"),
    ],
)
def test_for_the_settings(tmp_path: Path, text: str, what: str, fix: str) -> None:
    """One error in place of one for each of its keys."""
    file = tmp_path / "it.yaml"
    file.write_text(text)
    done = run("gateway", "--check-config", "--config", str(file))
    assert done.exit_code == 1
    assert done.stderr.count("error:") == 1
    assert what in done.stderr
    assert fix.format(file=file) in done.stderr


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        (SETTINGS, "a file of the gateway's settings", "--config {file}"),
        (ROUTE, "a manifest of kind ModelRoute", "headgate apply -f {file}"),
        (
            config_map(ROUTER),
            "the scheduler configuration of Kthena's router, in a ConfigMap",
            "save the text",
        ),
    ],
)
def test_for_the_scheduler(tmp_path: Path, text: str, what: str, fix: str) -> None:
    """The same for the file of scheduling.config_file."""
    file = tmp_path / "it.yaml"
    file.write_text(text)
    done = run("gateway", "--check-config", "--scheduling-config-file", str(file))
    assert done.exit_code == 1
    assert done.stderr.count("error:") == 1
    assert what in done.stderr
    assert fix.format(file=file) in done.stderr


def test_settings_by_old_names_stay_settings(tmp_path: Path) -> None:
    """`scheduler` is an old setting as well as a section of Kthena's."""
    file = tmp_path / "it.yaml"
    file.write_text("scheduler: least-work\nport: 0\n")
    assert run("gateway", "--check-config", "--config", str(file)).exit_code == 0


def test_settings_among_manifests(tmp_path: Path) -> None:
    """`headgate validate` names the command that checks them."""
    file = tmp_path / "it.yaml"
    file.write_text(SETTINGS)
    done = run("validate", "-f", str(file))
    assert done.exit_code == 1
    assert "a file of the gateway's settings, not a manifest" in done.output
    assert f"headgate gateway --check-config --config {file}" in done.output


@pytest.mark.parametrize("source", ["flag", "environment", "file"])
def test_a_missing_file_is_told_with_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """By the name that the user gave it: the flag, the variable, or the line of the file."""
    settings, words, told = tmp_path / "gateway.yaml", [], "command line: error: --scheduling-config-file"
    if source == "flag":
        words = ["--scheduling-config-file", "nowhere.yaml"]
    elif source == "environment":
        monkeypatch.setenv("HEADGATE_SCHEDULING_CONFIG_FILE", "nowhere.yaml")
        told = "environment: error: HEADGATE_SCHEDULING_CONFIG_FILE"
    else:
        settings.write_text("scheduling:\n  config_file: nowhere.yaml\n")
        words, told = ["--config", str(settings)], f"{settings}:2:16: error: scheduling.config_file"
    done = run("gateway", "--check-config", *words)
    assert done.exit_code == 1
    assert f"{told}: nowhere.yaml: No such file or directory" in done.stderr
