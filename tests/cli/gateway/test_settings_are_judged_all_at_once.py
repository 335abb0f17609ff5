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
from headgate.gateway import GatewaySettings, old_settings, setting_types


def errors(file: Path, **flags: object) -> list[str]:
    with pytest.raises(configuration.ConfigurationErrors) as raised:
        configuration.load(file, flags, {})
    return str(raised.value).replace(str(file.parent) + "/", "").splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.yaml"


@pytest.mark.parametrize(
    "name",
    [
        "redis://redis.example",
        "redis.example/0",
        "red is",
        "redis.example:6379",
        "redis:x",
        "[::1]",
        "a@b",
        "",
    ],
)
def test_a_host_of_redis_that_is_none_is_told(file: Path, name: str) -> None:
    """It would match no address that a route names, and its Redis would never get the password."""
    file.write_text(f'rate_limits: {{redis_hosts: [redis.example, "{name}", 10.0.0.7, "::1", redis_1]}}\n')
    (error,) = errors(file)
    assert f"rate_limits.redis_hosts: {name!r}: a host without scheme, port or path is needed" in error


def test_every_error_is_told_with_its_place_and_remedy(file: Path) -> None:
    """Unknown names, wrong types, values out of bounds, and settings that clash with a flag."""
    file.write_text(
        "loging: {level: info}\n"
        "logging: {access_log: jsn}\n"
        'clients: {max_connections: "12", max_bdy_bytes: 5}\n'
        "shutdown:\n  drain_s: 3\n  drain_s: -1\n"
        "admin: 8081\n"
    )
    assert errors(file, listen_port=70_000) == [
        'gateway.yaml:6:3: error: duplicate key "drain_s", already on line 5; remove one of the two',
        "gateway.yaml:1:1: error: loging: unknown setting; did you mean logging?",
        'gateway.yaml:2:23: error: logging.access_log: "jsn" is not json, off or text; did you mean json?',
        'gateway.yaml:3:28: error: clients.max_connections: "12" is not a whole number from 1 to 1000000; '
        "remove the quotes: 12",
        "gateway.yaml:3:34: error: clients.max_bdy_bytes: unknown setting; "
        "did you mean clients.max_body_bytes?",
        "gateway.yaml:6:12: error: shutdown.drain_s: -1 is not a number of seconds from 0 to 86400; "
        "its default is 30",
        "gateway.yaml:7:8: error: admin: this is a section: it must be a mapping; admin has host, port",
        "command line: error: --port: 70000 is not a whole number from 0 to 65535; its default is 8080",
    ]


def test_a_repeated_section_hides_no_error_of_the_first(file: Path) -> None:
    """The repetition is an error that names both lines; what stands in either is checked."""
    file.write_text(
        "listen:\n  port: eighty\nclients: {max_headers: 0}\nlisten:\n  prt: 1\nport: 1\nport: x\n"
    )
    assert errors(file) == [
        'gateway.yaml:4:1: error: duplicate key "listen", already on line 1; remove one of the two',
        'gateway.yaml:7:1: error: duplicate key "port", already on line 6; remove one of the two',
        'gateway.yaml:2:9: error: listen.port: "eighty" is not a whole number from 0 to 65535; '
        "its default is 8080",
        "gateway.yaml:3:24: error: clients.max_headers: 0 is not a whole number from 1 to 10000; "
        "its default is 100",
        "gateway.yaml:5:3: error: listen.prt: unknown setting; did you mean listen.port?",
        "gateway.yaml:6:1: error: port: this is the old name of listen.port, which is also set; "
        "remove one of the two",
        "gateway.yaml:7:1: error: port: this is the old name of listen.port, which is also set; "
        "remove one of the two",
    ]


def test_old_names_are_told_beside_errors(file: Path) -> None:
    """Who mends the errors sees at once what else to change."""
    file.write_text("drain_s: 5\nmax_headers: 0\n")
    done = CliRunner().invoke(main, ["gateway", "--check-config", "--config", str(file)])
    assert done.exit_code == 1
    for part in (
        f"{file}:1:1: warning: drain_s: this setting was renamed to shutdown.drain_s",
        f"{file}:2:1: warning: max_headers: this setting was renamed to clients.max_headers",
        f"{file}:2:14: error: max_headers: 0 is not",
    ):
        assert part in done.stderr


def test_a_program_reads_what_is_wrong(file: Path) -> None:
    """Errors and warnings as a list, as of `headgate validate`; the exit code counts errors alone."""

    def check(text: str, output: str) -> tuple[int, str]:
        file.write_text(text)
        done = CliRunner().invoke(main, ["gateway", "--check-config", "--config", str(file), "-o", output])
        return done.exit_code, done.stdout

    code, printed = check("drain_s: 5\nclients: {max_headers: 0}\n", "json")
    assert code == 1
    assert msgspec.json.decode(printed) == [
        {
            "file": str(file),
            "line": 1,
            "column": 1,
            "object": "",
            "path": "drain_s",
            "severity": "warning",
            "message": "this setting was renamed to shutdown.drain_s",
            "suggestion": "",
        },
        {
            "file": str(file),
            "line": 2,
            "column": 24,
            "object": "",
            "path": "clients.max_headers",
            "severity": "error",
            "message": "0 is not a whole number from 1 to 10000",
            "suggestion": "its default is 100",
        },
    ]
    assert check("clients: {max_headers: 5}\n", "json") == (0, "[]\n")
    code, printed = check("drain_s: 5\n", "github")
    assert code == 0
    assert printed.startswith(f"::warning file={file},line=1,col=1::drain_s: ")


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("drain: 5", "shutdown.drain_s"),
        ("ttl_s: 5", "queue.ttl_s"),
        ("clients_max_body_bytes: 5000", "clients.max_body_bytes"),
        ("client: {}", "clients"),
        ("queue: {queue_ttl_s: 5}", "queue.ttl_s"),
        ("queue: {drain_s: 5}", "shutdown.drain_s"),
        ("clients: {max-headers: 5}", "clients.max_headers"),
        (
            "endpoints: {timeout: 60}",
            "endpoints.connect_timeout_s, endpoints.response_timeout_s, "
            "endpoints.stream_response_timeout_s or endpoints.stream_idle_timeout_s",
        ),
        (
            "timeout: 60",
            "clients.receive_timeout_s, endpoints.connect_timeout_s, endpoints.response_timeout_s, "
            "endpoints.stream_response_timeout_s, endpoints.stream_idle_timeout_s or "
            "engine_metrics.timeout_s",
        ),
    ],
)
def test_a_name_that_does_not_exist_is_answered_with_what_was_meant(
    file: Path, written: str, meant: str
) -> None:
    """Misspelt names, names in the wrong section, and names spelled as flags and variables are."""
    file.write_text(written + "\n")
    (error,) = errors(file)
    assert error.endswith(f"unknown setting; did you mean {meant}?")


def test_a_name_with_a_dot_is_answered_with_its_section(file: Path) -> None:
    """Where the path is right, what is wrong is how it is written."""
    file.write_text("clients.max_headers: 5\n")
    (error,) = errors(file)
    assert error.endswith("; nest it: write max_headers below clients, as in clients: {max_headers: ...}")


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        (
            "auth: {jwt: x}",
            "did you mean auth.jwt_keys, auth.jwt_issuer, auth.jwt_audiences or auth.jwt_tenant_claim?",
        ),
        (
            "ssl: {cert: x}",
            "set tls.cert_files and tls.key_files, as docs/tls.md says",
        ),
        (
            "listen: {tls: true}",
            "set tls.cert_files and tls.key_files, as docs/tls.md says",
        ),
        ("tls: {cert: x}", "did you mean tls.cert_files?"),
        ("rate_limits: {tls: true}", "did you mean rate_limits.redis_tls?"),
        ("listen: {colour: red}", "listen has host, port"),
        ("abcd: 1", "`headgate gateway --help` lists all settings"),
    ],
)
def test_what_the_gateway_does_not_do_is_told_instead_of_the_nearest_name(
    file: Path, written: str, fix: str
) -> None:
    """No setting is suggested that merely shares some letters."""
    file.write_text(written + "\n")
    (error,) = errors(file)
    assert error.endswith(f"unknown setting; {fix}")


@pytest.mark.parametrize(
    ("written", "fix"),
    [
        ("clients: {receive_timeout_s: 30s}", "write 30"),
        ('clients: {max_body_bytes: "9000"}', "remove the quotes: 9000"),
        ('clients: {max_body_bytes: "9"}', "its default is 33554432"),
        ("clients: {receive_timeout_s: 1.5m}", "write 90"),
        ("clients: {receive_timeout_s: 1d}", "write 86400"),
        ("clients: {max_body_bytes: 32Mi}", "write 33554432"),
        ("clients: {max_body_bytes: 4Gi}", "its default is 33554432"),
        ("clients: {allowed_hosts: api.example.com}", "write a list: [api.example.com]"),
        ('queue: {enabled: "yes"}', "write true"),
        ("logging: {access_log: jsno}", "did you mean json?"),
    ],
)
def test_a_value_of_another_form_is_answered_with_the_right_one(file: Path, written: str, fix: str) -> None:
    """Durations and sizes with units, single items of lists, words for truth values."""
    file.write_text(written + "\n")
    (error,) = errors(file)
    assert error.endswith(f"; {fix}")


def test_flags_that_are_mistyped_are_answered_with_those_of_today() -> None:
    """Near an old name, the new one is suggested; a number with a unit is told as in a file."""
    told = CliRunner().invoke(main, ["gateway", "--max-bdy-bytes", "5"])
    assert "--clients-max-body-bytes" in told.output
    assert "'--max-body-bytes'" not in told.output
    told = CliRunner().invoke(main, ["gateway", "--clients-max-body-bytes", "32Mi"])
    assert '--clients-max-body-bytes: "32Mi" is not a whole number of bytes from 1024 to 1073' in told.output
    assert "fix: write 33554432" in told.output
    told = CliRunner().invoke(main, ["up", "--scheduler-confg", "x"])
    assert "Did you mean '--scheduling-config-file'?" in told.output


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["gateway", "--prot", "1"], "'--port'"),
        (["gateway", "--metric-port", "1"], "'--metrics-port'"),
        (["up", "--portt", "1"], "'--port'"),
        (["up", "--gateway-confg", "x"], "'--gateway-config'"),
        (["gatway"], "gateway"),
        (["route", "explan"], "'explain'"),
        (["apiserver", "token", "lst"], "'list'"),
        (["validate", "--strct"], "'--strict'"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest(words: list[str], meant: str) -> None:
    """Commands, their commands, and flags; only the nearest, where one clearly is."""
    told = CliRunner().invoke(main, words)
    assert told.exit_code == 2
    assert f"Did you mean {meant}?" in told.output


def test_two_pages_cannot_have_one_port(file: Path) -> None:
    """Whoever comes second is told whose port it is."""
    file.write_text("admin: {port: 8080}\n")
    assert errors(file, metrics_port=8080) == [
        "command line: error: --metrics-port: 8080 is already used by listen.port: choose another",
        "gateway.yaml:1:15: error: admin.port: 8080 is already used by listen.port: choose another",
    ]


def test_a_clash_of_ports_is_told_beside_other_errors(file: Path) -> None:
    """Unless what is wrong is in one of their sections: then nobody knows which port was wanted."""
    file.write_text("admin: {port: 8080}\nlogging: {level: loud}\n")
    clash = "gateway.yaml:1:15: error: admin.port: 8080 is already used by listen.port: choose another"
    assert clash in errors(file)
    file.write_text("admin: {port: 8080}\nlisten: {prt: 8085}\n")
    assert len(errors(file)) == 1
    file.write_text("admin: {port: 8080}\nlisten: [\n")
    assert all("already used" not in error for error in errors(file, metrics_port=8080))


@pytest.mark.parametrize("host", ["999.1.1.1", "10.0.0", "[::1]", "localhost:80", "a b", "::zz"])
@pytest.mark.parametrize("section", ["listen", "metrics", "admin"])
def test_a_host_that_nothing_can_listen_on_is_told_before_the_start(
    file: Path, section: str, host: str
) -> None:
    """Addresses are judged as they are written; names are only looked up at the start."""
    file.write_text(f'{section}: {{host: "{host}"}}\n')
    (error,) = errors(file)
    assert f"{section}.host: {host!r} is " in error
    for right in ("localhost", "gateway.example.com", "0.0.0.0", "::", "fe80::1%lo", "", "no-such-host"):
        file.write_text(f'{section}: {{host: "{right}"}}\n')
        assert getattr(configuration.load(file, {}, {}), section).host == right


def test_a_flag_that_cannot_be_read_hides_no_other_error(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers, truth values and words of flags are reported with the environment and the file."""
    file.write_text("shutdown: {drain_s: x}\n")
    monkeypatch.setenv("HEADGATE_METRICS_PORT", "y")
    flags = ["--port", "abc", "--queue-enabled", "maybe", "--logging-level", "loud"]
    told = CliRunner().invoke(main, ["gateway", "--check-config", "--config", str(file), *flags])
    assert told.exit_code == 2
    for part in (
        'shutdown.drain_s: "x" is not',
        'HEADGATE_METRICS_PORT: "y" is not',
        '--port: "abc" is not a whole number from 0 to 65535',
        '--queue-enabled: "maybe" is not true or false',
        '--logging-level: "loud" is not debug, error, info or warning',
    ):
        assert part in told.output, part
    told = CliRunner().invoke(main, ["up", "--port", "abc"])
    assert (told.exit_code, 'HEADGATE_METRICS_PORT: "y" is not' in told.output) == (2, True)


def test_a_number_that_is_none_is_told_once(file: Path) -> None:
    """YAML has numbers that JSON has not."""
    file.write_text("workers: {hang_s: .nan}\n")
    (error,) = errors(file)
    assert "gateway.yaml:1:19: error:" in error


def test_a_flow_has_one_weight(file: Path) -> None:
    """Of two, nobody could tell which counts."""
    file.write_text("queue: {weights: [a=1, b=1, a=2]}\n")
    (error,) = errors(file)
    assert error.endswith("queue.weights: 'a=2': the flow 'a' has a weight already: remove one of the two")


def test_exit_codes_tell_a_bad_command_line_from_bad_settings(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings that clash are 1 wherever they come from; a flag that cannot be read is 2."""

    def check(*words: str) -> int:
        return CliRunner().invoke(main, ["gateway", "--check-config", *words]).exit_code

    assert check("--port", "8500", "--metrics-port", "8500") == 1
    assert check("--port", "abc") == 2
    assert check("--prt", "1") == 2
    file.write_text("listen: {port: 8500}\nmetrics: {port: 8500}\n")
    assert check("--config", str(file)) == 1
    assert CliRunner().invoke(main, ["up", "--gateway-config", str(file)]).exit_code == 1
    monkeypatch.setenv("HEADGATE_METRICS_PORT", "8500")
    assert check("--port", "8500") == 1


def test_a_value_that_cannot_be_read_hides_none_that_makes_no_sense(file: Path) -> None:
    """And the default in its place clashes with nothing."""
    file.write_text("listen: {port: eighty}\nadmin: {port: 8080}\ncors: {origins: [example.com/]}\n")
    assert errors(file) == [
        'gateway.yaml:1:16: error: listen.port: "eighty" is not a whole number from 0 to 65535; '
        "its default is 8080",
        "gateway.yaml:3:17: error: cors.origins: 'example.com/': an origin such as https://app.example.com "
        "is needed, without a path, or *",
    ]


def test_off_is_a_word_where_a_word_is_wanted(file: Path) -> None:
    """To YAML it is a truth value."""
    file.write_text("logging: {access_log: off}\nkubernetes: {kubeconfig: 12}\n")
    settings = configuration.load(file, {}, {})
    assert (settings.logging.access_log, settings.kubernetes.kubeconfig) == ("off", "12")


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "drain_s:\n", "clients:\n", "clients: {max_headers: }\n", "---\n"]
)
def test_what_is_not_said_has_its_default(file: Path, text: str) -> None:
    """An empty file and an empty value change nothing."""
    file.write_text(text)
    assert configuration.load(file, {}, {}) == GatewaySettings()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"- drain_s: 3\n", "must be a mapping"),
        (b"clients: [\n", "gateway.yaml:2:1"),
        (b"{}\n---\nlisten: {}\n", "gateway.yaml:2:1: error: a second document"),
        (
            b"listen:\n  host: caf\xe9\n",
            "gateway.yaml: error: the file is not UTF-8: line 2, byte 19 of the file, is 0xe9 "
            "(invalid continuation byte); save it as UTF-8",
        ),
        (b"shutdown: {drain_s: .nan}\n", "gateway.yaml:1:21"),
        (b"SQLite format 3\0\x10\0\x01", "gateway.yaml: error: this is not a text file"),
        ("listen: {port: 80}\n".encode("utf-16"), "the file is not UTF-8"),
    ],
)
def test_a_file_that_is_no_configuration_says_why(file: Path, text: bytes, told: str) -> None:
    """Lists, broken YAML, several documents, bytes that are no text."""
    file.write_bytes(text)
    assert any(told in error for error in errors(file))


def test_a_file_that_is_missing_is_an_error(file: Path) -> None:
    """It is not taken for an empty one."""
    assert errors(file) == ["gateway.yaml: error: No such file or directory"]


_VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.text())
_SECTIONS = st.dictionaries(
    st.sampled_from(sorted({setting.name for setting in setting_types.settings().values()}))
    | st.text(max_size=8),
    _VALUES,
    max_size=5,
)


@given(
    st.dictionaries(
        st.sampled_from(sorted(section.name for section in setting_types.sections()))
        | st.sampled_from(sorted(old_settings.RENAMED))
        | st.text(max_size=8),
        _VALUES | _SECTIONS,
        max_size=5,
    ),
    st.dictionaries(
        st.sampled_from(sorted(setting.variable for setting in setting_types.settings().values())),
        st.text(max_size=8),
        max_size=3,
    ),
)
def test_whatever_a_file_says_it_is_taken_or_told(
    tmp_path_factory: pytest.TempPathFactory, values, environment
) -> None:
    """No value makes the reader fall over, and what it takes is valid."""
    file = tmp_path_factory.mktemp("file") / "gateway.yaml"
    file.write_bytes(msgspec.yaml.encode(values))
    try:
        settings = configuration.load(file, {}, environment)
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
        assert {*setting.flags} <= flags
        assert setting.description.endswith("."), setting.path


def test_no_two_settings_have_one_name() -> None:
    """Paths with "_" for ".", of which flags and variables are made, are as distinct as the paths."""
    settings = setting_types.settings()
    assert len(setting_types.by_key()) == len(settings)
    flags = {flag: setting.path for setting in settings.values() for flag in setting.flags}
    for old, path in old_settings.RENAMED.items():
        assert flags.get("--" + old.replace("_", "-"), path) == path, old
        assert path in settings


def test_check_config_judges_and_serves_nothing(file: Path) -> None:
    """Exit code 0 for a valid file, 1 with the errors for another."""
    file.write_text("shutdown: {drain_s: 5}\n")
    checked = CliRunner().invoke(main, ["gateway", "--config", str(file), "--check-config"])
    assert (checked.exit_code, checked.output) == (0, f"{file} is valid\n")
    file.write_text("drain: 5\n")
    checked = CliRunner().invoke(main, ["gateway", "--config", str(file), "--check-config"])
    assert checked.exit_code == 1
    assert "1 | drain: 5" in checked.output
    assert "did you mean shutdown.drain_s?" in checked.output


@pytest.mark.parametrize("written", ['auth: {admin_token_file: "a\\0"}', 'objects: {files: ["a\\0"]}'])
def test_zero_bytes_are_told(file: Path, written: str) -> None:
    """The system refuses paths with them in a way of its own."""
    file.write_text(written)
    (error,) = errors(file)
    assert error.endswith("has a zero byte: remove it")
