"""Names from before settings had sections are taken, with a warning that has the new name."""

import logging
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.cli.gateway import configuration
from headgate.gateway import GatewaySettings, old_settings, setting_types


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


@pytest.mark.parametrize(("old", "path"), old_settings.RENAMED.items())
def test_an_old_name_in_a_file_works_with_one_warning(
    old: str, path: str, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The warning has the place and the new name."""
    picker = file.with_name("picker.yaml")
    picker.write_text(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: queue-scorer}]\n"
    )
    default = setting_types.settings()[path].default
    value = 0.5 if path == "tracing.sample_ratio" else str(picker) if default is None else default
    file.write_text(f"{old}: {msgspec.json.encode(value).decode()}\n")
    with caplog.at_level(logging.WARNING):
        loaded = configuration.load_with_origins(file, {}, {})
    assert loaded.origins == {path: f"{file}:1"}
    warnings = [message for message in caplog.messages if old in message]
    assert warnings == [f"{file}:1:1: warning: {old}: this setting was renamed to {path}"]


def test_a_file_of_old_and_new_names_is_read_as_one(file: Path) -> None:
    """Sections and old names may stand side by side while a file is being converted."""
    file.write_text("workers: 2\nengine_metrics: false\nclients: {max_headers: 7}\nlameduck_s: 1\n")
    assert configuration.load(file, {}, {}) == GatewaySettings().replace(
        workers_count=2, engine_metrics_enabled=False, clients_max_headers=7, shutdown_lameduck_s=1
    )


@pytest.mark.parametrize(
    "text", ["drain_s: 5\nshutdown: {drain_s: 6}\n", "shutdown: {drain_s: 6}\ndrain_s: 5\n"]
)
def test_old_and_new_name_in_one_file_are_an_error(file: Path, text: str) -> None:
    """Nobody can tell which of them was meant."""
    file.write_text(text)
    with pytest.raises(configuration.ConfigurationErrors) as raised:
        configuration.load(file, {}, {})
    line = text.splitlines().index("drain_s: 5") + 1
    assert raised.value.errors == [
        f"{file}:{line}:1: error: drain_s: this is the old name of shutdown.drain_s, which is also set; "
        "remove one of the two"
    ]


def test_a_flag_by_its_old_name_goes_before_a_file_by_the_new_one(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a setting was given counts, not how it was called."""
    file.write_text("shutdown: {drain_s: 6}\n")
    with caplog.at_level(logging.WARNING):
        assert configuration.load(file, {"drain_s": 5}, {}).shutdown.drain_s == 5
    assert caplog.messages == [
        "command line: warning: --drain-s: this setting was renamed to --shutdown-drain-s"
    ]


def test_old_flags_are_taken_by_the_command(caplog: pytest.LogCaptureFixture) -> None:
    """All of them exist, though help does not list them; beside the new name they are an error."""
    command = main.get_command(click.Context(main), "gateway")
    flags = {flag for parameter in command.params for flag in parameter.opts}
    assert {"--" + old.replace("_", "-") for old in old_settings.RENAMED} <= flags
    told = CliRunner().invoke(
        main, ["gateway", "--drain-s", "5", "--shutdown-drain-s", "6", "--check-config"]
    )
    assert told.exit_code == 1
    assert "--drain-s: this is the old name of --shutdown-drain-s, which is also set" in told.output


def test_one_namespace_is_a_list_of_one(file: Path) -> None:
    """The setting was a text before; so it is between workers and supervisors of two versions."""
    file.write_text("namespace: models\n")
    assert configuration.load(file, {}, {}).kubernetes.namespaces == ("models",)
    for old, new in {"models": ["models"], None: []}.items():
        assert old_settings.from_any_version({"kubernetes.namespace": old, "namespace": old}) == {
            "kubernetes.namespaces": new
        }
        said = old_settings.with_old_names({"kubernetes.namespaces": new})
        assert (said["namespace"], said["kubernetes.namespace"]) == (old, old)
        assert old_settings.from_any_version(said) == {"kubernetes.namespaces": new}


def test_namespaces_are_flags_and_a_variable(file: Path) -> None:
    flags = {"kubernetes_namespaces": ["a", "b"]}
    assert configuration.load(None, flags, {}).kubernetes.namespaces == ("a", "b")
    environment = {"HEADGATE_KUBERNETES_NAMESPACES": "a, b"}
    assert configuration.load(None, {}, environment).kubernetes.namespaces == ("a", "b")
    with pytest.raises(configuration.ConfigurationErrors, match="'A_b' is not the name of a namespace"):
        configuration.load(None, {"kubernetes_namespaces": ["A_b"]}, {})
