"""The file that says how endpoints are picked is judged with the settings, and reloaded when it changes."""

import logging
from pathlib import Path

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.cli.gateway import configuration
from headgate.gateway import setting_types

ROOT = Path(__file__).parents[2]
HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


def errors(file: Path, settings: Path | None = None, **flags: object) -> list[str]:
    with pytest.raises(configuration.ConfigurationErrors) as raised:
        configuration.load(settings, {"scheduling_config_file": str(file), **flags})
    return str(raised.value).replace(str(file.parent) + "/", "").splitlines()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "picker.yaml"


def test_its_errors_are_told_with_those_of_the_settings(file: Path) -> None:
    """Each with file, line, column, path and what is right."""
    settings = file.parent / "gateway.yaml"
    settings.write_text("drain: 5\n")
    file.write_text(f"{HEAD}plugins:\n- type: quue-scorer\n- {{type: load-aware-scorer, nam: x}}\n")
    assert errors(file, settings) == [
        "gateway.yaml:1:1: error: drain: unknown setting; did you mean shutdown.drain_s?",
        "picker.yaml:5:29: error: plugins[1].nam: there is no such field; did you mean name?",
        "picker.yaml:4:9: error: plugins[0].type: there is no plugin type quue-scorer; "
        "did you mean queue-scorer?",
    ]


def test_a_file_that_cannot_be_read_is_an_error(file: Path) -> None:
    """Missing, empty, or no YAML."""
    assert errors(file) == [
        "command line: error: --scheduling-config-file: picker.yaml: No such file or directory"
    ]
    file.write_text("")
    assert "picker.yaml: error: it says nothing" in errors(file)[0]
    file.write_text("plugins: [\n")
    assert "picker.yaml:2:1: error: " in errors(file)[0]


def test_experimental_plugins_need_the_setting(file: Path) -> None:
    """Then they are as good as any."""
    file.write_text(f"{HEAD}plugins: [{{type: session-affinity-scorer}}]\n")
    assert (
        "is experimental; allow it with the setting scheduling.allow_experimental_plugins: true"
        in errors(file)[0]
    )
    settings = configuration.load(
        None, {"scheduling_config_file": str(file), "scheduling_allow_experimental_plugins": True}
    )
    assert settings.scheduling.content is not None


def test_what_has_no_effect_is_logged(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning for what is missed, information for what is not needed."""
    file.write_text(
        f"{HEAD}featureGates: [enableLegacyMetrics]\nplugins: [{{type: inflight-load-producer}}]\n"
    )
    with caplog.at_level(logging.INFO):
        configuration.load(None, {"scheduling_config_file": str(file)})
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert "featureGates[0]: enableLegacyMetrics has no effect" in caplog.text


def test_validate_knows_both_dialects(file: Path) -> None:
    """The examples are valid; mistakes are shown like those of manifests."""
    examples = sorted((ROOT / "examples" / "scheduling").glob("*.yaml"))
    assert len(examples) == 2
    for example in examples:
        result = CliRunner().invoke(main, ["validate", "-f", str(example)], catch_exceptions=False)
        assert (result.exit_code, result.output) == (0, "1 object in 1 file: valid\n")
    file.write_text(f"{HEAD}plugins: [{{type: quue-scorer}}]\n---\nscheduler: {{plugin: {{}}}}\n")
    result = CliRunner().invoke(main, ["validate", "-f", str(file)], catch_exceptions=False)
    assert result.exit_code == 1
    assert "picker.yaml:3:18: error: plugins[0].type: there is no plugin type quue-scorer" in result.output
    assert "picker.yaml:5:13: error: scheduler.plugin: there is no such field" in result.output
    assert "fix: did you mean plugins?" in result.output
    assert "2 objects in 1 file: 2 errors" in result.output


async def test_a_change_of_the_file_takes_effect_and_an_invalid_one_does_not(
    start_gateway, tmp_path, eventually
):
    """Without any other setting; /debug/config shows what is in effect."""
    file = tmp_path / "picker.yaml"
    file.write_text((ROOT / "examples" / "scheduling" / "picker.yaml").read_text())
    gateway = await start_gateway("--scheduling-config-file", str(file))

    def scorers() -> list[str]:
        shown = gateway.config()["scheduling"]["configuration"]["profiles"][0]["scorers"]
        return [each["name"] for each in shown]

    assert len(scorers()) == 4
    assert gateway.config()["settings"]["scheduling"]["config_file"] == str(file)
    shown = {f"{section}.{name}" for section, found in gateway.config()["settings"].items() for name in found}
    assert shown == set(setting_types.settings()), "what is computed from settings is none"
    file.write_text(f"{HEAD}plugins: [{{type: queue-scorer}}]\n")
    await eventually(lambda: scorers() == ["queue-scorer"])
    file.write_text(f"{HEAD}plugins: [{{type: queue-score}}]\n")
    await eventually(lambda: gateway.config()["configuration"]["errors"])
    assert scorers() == ["queue-scorer"]
    assert "did you mean queue-scorer?" in gateway.said()
    body = {"model": "m", "prompt": "hello"}
    assert gateway.http.post(f"{gateway.url}/v1/completions", json=body).status_code == 200


def test_kthenas_environment_is_judged_with_the_settings(caplog: pytest.LogCaptureFixture) -> None:
    """What switches a queue on is kept; two queues are an error; what has no effect is logged."""
    fair = {"ENABLE_FAIRNESS_SCHEDULING": "true", "FAIRNESS_MAX_QPS": "many", "HOME": "/root"}
    with caplog.at_level(logging.INFO):
        settings = configuration.load(None, {}, fair)
    assert settings.queue.kthena_environment == {name: fair[name] for name in list(fair)[:2]}
    assert "FAIRNESS_MAX_QPS: 'many' is not a whole number" in caplog.text
    assert configuration.load(None, {}, {"FAIRNESS_MAX_QPS": "5"}).queue.kthena_environment == {}
    with pytest.raises(configuration.ConfigurationErrors) as raised:
        configuration.load(None, {}, fair | {"ENABLE_SESSION_BOOST": "true"})
    assert "environment: error: ENABLE_SESSION_BOOST" in str(raised.value)
