"""The gateway's file and flags: one wrong setting hides no other, and each says what would be right."""

from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from headgate.cli import main
from headgate.cli.gateway import configuration
from headgate.gateway import GatewaySettings, setting_types


def errors(file: Path, **flags: object) -> list[str]:
    with pytest.raises(configuration.ConfigurationErrors) as raised:
        configuration.load(file, flags)
    return str(raised.value).replace(str(file.parent) + "/", "").splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


def test_flags_go_before_the_file_and_the_file_before_defaults(file: Path) -> None:
    """Each source says only what it means to change."""
    file.write_text("drain_s: 5\nmax_headers: 7\n")
    settings = configuration.load(file, {"max_headers": 9})
    assert settings == GatewaySettings(drain_s=5, max_headers=9)


def test_every_error_is_told_with_its_place_and_remedy(file: Path) -> None:
    """Unknown names, wrong types, values out of bounds, and settings that clash with a flag."""
    file.write_text('acces_log: json\naccess_log: jsn\nmax_clients: "12"\ndrain_s: 3\ndrain_s: -1\n')
    assert errors(file, port=70_000) == [
        'gateway.yaml:5:1: error: duplicate key "drain_s", which line 4 has already; remove one of the two',
        "gateway.yaml:1:1: error: acces_log: there is no such setting; did you mean access_log?",
        'gateway.yaml:2:13: error: access_log: "jsn" is not json, off or text; did you mean json?',
        'gateway.yaml:3:14: error: max_clients: "12" is not a whole number from 1 to 1000000; '
        "its default is 10000",
        "gateway.yaml:5:10: error: drain_s: -1 is not a number from 0 to 86400; its default is 30",
        "command line: error: --port: 70000 is not a whole number from 0 to 65535; its default is 8080",
    ]


def test_two_pages_cannot_have_one_port(file: Path) -> None:
    """Whoever comes second is told whose port it is."""
    file.write_text("admin_port: 8080\n")
    assert errors(file, metrics_port=8080) == [
        "command line: error: --metrics-port: 8080 is port already: choose another",
        "gateway.yaml:1:13: error: admin_port: 8080 is port already: choose another",
    ]


def test_a_value_that_cannot_be_read_hides_none_that_makes_no_sense(file: Path) -> None:
    """And the default in its place clashes with nothing."""
    file.write_text("port: eighty\nadmin_port: 8080\ncors_origins: [example.com/]\n")
    assert errors(file) == [
        'gateway.yaml:1:7: error: port: "eighty" is not a whole number from 0 to 65535; its default is 8080',
        "gateway.yaml:3:15: error: cors_origins: 'example.com/': an origin such as https://app.example.com "
        "is needed, without a path, or *",
    ]


def test_off_is_a_word_where_a_word_is_wanted(file: Path) -> None:
    """To YAML it is a truth value."""
    file.write_text("access_log: off\nnamespace: 12\n")
    settings = configuration.load(file, {})
    assert (settings.access_log, settings.namespace) == ("off", "12")


@pytest.mark.parametrize("text", ["", "# nothing\n", "drain_s:\n", "---\n"])
def test_what_is_not_said_has_its_default(file: Path, text: str) -> None:
    """An empty file and an empty value change nothing."""
    file.write_text(text)
    assert configuration.load(file, {}) == GatewaySettings()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"- drain_s: 3\n", "must be a mapping"),
        (b"drain_s: [\n", "gateway.yaml:2:1"),
        (b"drain_s: 1\n---\nport: 2\n", "gateway.yaml:2:1: error: a second document"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"drain_s: .nan\n", "gateway.yaml:1:10"),
    ],
)
def test_a_file_that_is_no_configuration_says_why(file: Path, text: bytes, told: str) -> None:
    """Lists, broken YAML, several documents, bytes that are no text."""
    file.write_bytes(text)
    assert any(told in error for error in errors(file))


def test_a_file_that_is_missing_is_an_error(file: Path) -> None:
    """It is not taken for an empty one."""
    assert errors(file) == ["gateway.yaml: error: No such file or directory"]


@given(
    st.dictionaries(
        st.sampled_from(sorted(setting_types.settings())) | st.text(max_size=8),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.text()),
        max_size=5,
    )
)
def test_whatever_a_file_says_it_is_taken_or_told(tmp_path_factory: pytest.TempPathFactory, values) -> None:
    """No value makes the reader fall over, and what it takes is valid."""
    file = tmp_path_factory.mktemp("file") / "gateway.yaml"
    file.write_bytes(msgspec.yaml.encode(values))
    try:
        settings = configuration.load(file, {})
    except configuration.ConfigurationErrors as error:
        assert error.findings
    else:
        assert msgspec.convert(msgspec.to_builtins(settings), GatewaySettings) == settings


def test_every_setting_has_a_flag_and_says_what_it_is_for() -> None:
    """A setting added to the type is in the file, the flags and the table at once."""
    command = main.get_command(click.Context(main), "gateway")
    assert command is not None
    flags = {flag for parameter in command.params for flag in parameter.opts}
    for setting in setting_types.settings().values():
        assert setting.flag in flags
        assert setting.description.endswith("."), setting.name


def test_check_config_judges_and_serves_nothing(file: Path) -> None:
    """Exit code 0 for a valid file, 1 with the errors for another."""
    file.write_text("drain_s: 5\n")
    checked = CliRunner().invoke(main, ["gateway", "--config", str(file), "--check-config"])
    assert (checked.exit_code, checked.output) == (0, f"{file} is valid\n")
    file.write_text("drain: 5\n")
    checked = CliRunner().invoke(main, ["gateway", "--config", str(file), "--check-config"])
    assert checked.exit_code == 1
    assert "1 | drain: 5" in checked.output
    assert "did you mean drain_s?" in checked.output
