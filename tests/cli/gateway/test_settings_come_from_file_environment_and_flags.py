"""File, environment and flags give the same settings, under names that follow from one another."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from headgate.cli import main
from headgate.cli.gateway import configuration
from headgate.gateway import GatewaySettings, setting_types


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


def run(*arguments: object, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["gateway", *map(str, arguments)], env=environment)


def environment_errors(**environment: str) -> list[str]:
    with pytest.raises(configuration.ConfigurationErrors) as raised:
        configuration.load(None, {}, environment)
    return raised.value.errors


def test_flags_go_before_the_environment_the_file_and_defaults(file: Path) -> None:
    """Each source says only what it means to change."""
    file.write_text("clients: {max_headers: 7, max_pipelined: 7, keep_alive_s: 7}\n")
    environment = {"HEADGATE_CLIENTS_MAX_HEADERS": "8", "HEADGATE_CLIENTS_MAX_PIPELINED": "8"}
    settings = configuration.load(file, {"clients_max_headers": 9}, environment)
    assert settings == GatewaySettings().replace(
        clients_max_headers=9, clients_max_pipelined=8, clients_keep_alive_s=7
    )


def test_every_setting_can_be_given_in_every_place(file: Path) -> None:
    """The default of each, written as a flag, a variable and a file, is read as that default."""
    for setting in setting_types.settings().values():
        if setting.default in (None, (), ""):
            continue
        default = list(setting.default) if isinstance(setting.default, tuple) else setting.default
        file.write_text(yaml.safe_dump({setting.section: {setting.name: default}}))
        listed = default if isinstance(default, list) else [default]
        variables = {setting.variable: ",".join(map(str, listed))}
        flags = [word for item in listed for word in (setting.flags[-1], str(item))]
        for arguments, environment in ((["--config", file], {}), ([], variables), (flags, {})):
            shown = run(*arguments, "--show-settings", "json", environment=environment)
            assert shown.exit_code == 0, shown.output
            row = next(row for row in json.loads(shown.stdout) if row["setting"] == setting.path)
            assert row["value"] == default
            assert row["from"] != "default"


def test_variables_have_lists_with_commas_and_empty_ones_are_not_set() -> None:
    """Truth values are written true or false, as in a file."""
    environment = {
        "HEADGATE_CLIENTS_ALLOWED_HOSTS": "a.example, *.b.example",
        "HEADGATE_QUEUE_ENABLED": "false",
        "HEADGATE_SHUTDOWN_DRAIN_S": "7.5",
        "HEADGATE_LISTEN_PORT": "",
    }
    assert configuration.load(None, {}, environment) == GatewaySettings().replace(
        clients_allowed_hosts=("a.example", "*.b.example"), queue_enabled=False, shutdown_drain_s=7.5
    )


def test_variables_that_are_wrong_are_told_at_once() -> None:
    """Values, and names that are misspelt or without their section."""
    assert environment_errors(
        HEADGATE_CLIENTS_MAX_HEADERS="many",
        HEADGATE_CLIENTS_MAX_HEADER="5",
        HEADGATE_CLIENT_MAX_BODY_BYTES="5",
        HEADGATE_DRAIN_S="5",
        HEADGATE_QUEUE_XYZZY="5",
    ) == [
        "environment: error: HEADGATE_CLIENTS_MAX_HEADER: unknown setting; "
        "did you mean HEADGATE_CLIENTS_MAX_HEADERS?",
        'environment: error: HEADGATE_CLIENTS_MAX_HEADERS: "many" is not a whole number from 1 to 10000; '
        "its default is 100",
        "environment: error: HEADGATE_CLIENT_MAX_BODY_BYTES: unknown setting; "
        "did you mean HEADGATE_CLIENTS_MAX_BODY_BYTES?",
        "environment: error: HEADGATE_DRAIN_S: unknown setting; did you mean HEADGATE_SHUTDOWN_DRAIN_S?",
        "environment: error: HEADGATE_QUEUE_XYZZY: unknown setting; "
        "`headgate gateway --help` lists all settings",
    ]


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        (
            "TIMEOUT",
            "did you mean HEADGATE_CLIENTS_RECEIVE_TIMEOUT_S, HEADGATE_ENDPOINTS_CONNECT_TIMEOUT_S, "
            "HEADGATE_ENDPOINTS_RESPONSE_TIMEOUT_S, HEADGATE_ENDPOINTS_STREAM_RESPONSE_TIMEOUT_S, "
            "HEADGATE_ENDPOINTS_STREAM_IDLE_TIMEOUT_S or HEADGATE_ENGINE_METRICS_TIMEOUT_S?",
        ),
        ("APISERVER_PROT", "did you mean HEADGATE_APISERVER_PORT?"),
        (
            "TLS_CERT",
            "did you mean HEADGATE_TLS_CERT_FILES?",
        ),
        ("IMAGE_TAG", "`headgate gateway --help` lists all settings"),
    ],
)
def test_no_variable_with_our_prefix_is_ignored(name: str, fix: str) -> None:
    """Also where it resembles no setting: whoever sets it expects something of it."""
    told = f"environment: error: HEADGATE_{name}: unknown setting; {fix}"
    assert environment_errors(**{f"HEADGATE_{name}": "60"}) == [told]


def test_variables_of_kubernetes_and_of_others_are_left_alone() -> None:
    """Kubernetes sets some for each Service, and those of headgate-metrics and the like begin as ours do."""
    environment = {
        "HEADGATE_METRICS_PORT": "tcp://10.0.0.7:9090",
        "HEADGATE_METRICS_PORT_9090_TCP": "tcp://10.0.0.7:9090",
        "HEADGATE_METRICS_PORT_9090_TCP_ADDR": "10.0.0.7",
        "HEADGATE_METRICS_SERVICE_HOST": "10.0.0.7",
        "HEADGATE_METRICS_SERVICE_PORT": "9090",
        "HEADGATE_METRICS_SERVICE_PORT_HTTP": "9090",
        "HEADGATE_PORT": "tcp://10.0.0.8:80",
        "HEADGATE_APISERVER_PORT": "7443",
        "HEADGATE_GATEWAY_HANDED_OVER": "5",
        "HEADGATE_RUN": "5f3a",
        "HEADGATE_STATE": "/var/lib/headgate",
    }
    assert configuration.load(None, {}, environment) == GatewaySettings()


def test_the_settings_in_effect_are_shown_with_where_they_come_from(file: Path) -> None:
    """Every setting is listed, with its default where nobody set it."""
    file.write_text("# mine\nclients:\n  max_headers: 7\nshutdown: {drain_s: 5}\n")
    environment = {"HEADGATE_SHUTDOWN_DRAIN_S": "6"}
    shown = run("--config", file, "--port", 8000, "--show-settings", environment=environment)
    lines = {line.split()[0]: line.split()[1:] for line in shown.stdout.splitlines()}
    assert lines.keys() == setting_types.settings().keys()
    assert lines["clients.max_headers"] == ["7", f"{file}:3"]
    assert lines["shutdown.drain_s"] == ["6", "HEADGATE_SHUTDOWN_DRAIN_S"]
    assert lines["listen.port"] == ["8000", "--port"]
    assert lines["listen.host"] == ['"127.0.0.1"', "default"]


def test_settings_that_are_set_are_shown_as_a_file_that_sets_them(file: Path) -> None:
    """This is how a file with old names is converted."""
    file.write_text('max_clients: 5\nallowed_hosts: ["*.a.example"]\naccess_log: off\nqueue: {ttl_s: 1.5}\n')
    shown = run("--config", file, "--show-settings", "yaml")
    again = file.with_name("again.yaml")
    again.write_text(shown.stdout)
    settings = configuration.load(again, {}, {})
    assert settings == configuration.load(file, {}, {})
    assert settings.clients.max_connections == 5
    assert "max_clients" not in shown.stdout


def test_help_lists_flags_by_section() -> None:
    """Under the name of the section, without the old names."""
    shown = run("--help").stdout
    assert shown.index("\nclients:\n") < shown.index("--clients-max-body-bytes") < shown.index("\ncors:\n")
    assert " --max-body-bytes" not in shown
