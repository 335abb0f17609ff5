"""A configuration that authenticated requests elsewhere does not start a gateway that lets everybody in."""

import asyncio
import json
import logging
import subprocess
import sys

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.cli.gateway import configuration

SCHEDULER = "scheduler:\n  plugins:\n    Score: {enabled: [{name: least-request}]}\n"
AUTH = "auth:\n  issuer: https://issuer.example\n  jwksUri: https://issuer.example/jwks\n"
BARE = "pluginConfig: []\nplugins: {Score: {enabled: [{name: least-request}]}}\n"


@pytest.mark.parametrize("text", [SCHEDULER + AUTH, AUTH + BARE, AUTH, SCHEDULER + "auth: {}\n"])
def test_auth_is_refused_with_place_reason_and_fix(tmp_path, text):
    """Wherever in the file it stands, and whether the rest is there or not."""
    file = tmp_path / "router.yaml"
    file.write_text(text)
    with pytest.raises(configuration.ConfigurationErrors) as raised:
        configuration.load(None, {"scheduling_config_file": str(file)})
    [line] = str(raised.value).splitlines()
    at = text[: text.index("auth:")].count("\n") + 1
    assert line.startswith(f"{file}:{at}:")
    for part in ("error: auth:", "checks no tokens", "every request would be let in", "ignore_auth"):
        assert part in line


def test_an_empty_section_is_none(tmp_path):
    """`auth:` with nothing behind it authenticates nobody in Kthena either."""
    file = tmp_path / "router.yaml"
    file.write_text(f"{SCHEDULER}auth:\n")
    assert configuration.load(None, {"scheduling_config_file": str(file)}).scheduling.content is not None


def test_a_setting_lets_it_pass_and_says_so(tmp_path, caplog):
    """The rest of the file counts then, and the log warns that everybody is let in."""
    file = tmp_path / "router.yaml"
    file.write_text(SCHEDULER + AUTH)
    settings = configuration.load(None, {"scheduling_config_file": str(file), "scheduling_ignore_auth": True})
    assert settings.scheduling.content is not None
    assert "scheduler" in settings.scheduling.content
    assert "auth" not in settings.scheduling.content
    [warning] = [record.getMessage() for record in caplog.records if "auth" in record.getMessage()]
    assert "requests are not authenticated" in warning


def test_no_variable_of_the_environment_is_passed_over_in_silence(tmp_path, caplog):
    """Those of Kthena's router that have no effect here are each told, with what to use instead."""
    caplog.set_level(logging.INFO)
    environment = {
        "ACCESS_LOG_FORMAT": "json",
        "DRAIN_TIMEOUT": "5m",
        "FAIRNESS_MAX_QPS": "7",
        "SESSION_BOOST_HEADER": "x-session",
        "HOME": "/root",
    }
    assert configuration.load(None, {}, environment).queue.kthena_environment == {}
    told = {record.getMessage().split(": ")[2] for record in caplog.records}
    assert told == environment.keys() - {"HOME"}
    assert "use the setting shutdown.drain_s" in caplog.text
    assert "ENABLE_FAIRNESS_SCHEDULING is not true" in caplog.text


def test_a_file_that_goes_before_the_environment_says_so(tmp_path, caplog):
    """Both may say how requests wait, and one of them has no effect."""
    file = tmp_path / "picker.yaml"
    file.write_text(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\n"
        "flowControl: {maxRequests: 10}\ndataLayer: {injectDefaults: false}\n"
    )
    configuration.load(None, {"scheduling_config_file": str(file)}, {"ENABLE_FAIRNESS_SCHEDULING": "true"})
    assert "ENABLE_FAIRNESS_SCHEDULING: ignored: flowControl in" in caplog.text
    assert "dataLayer.injectDefaults: without effect" in caplog.text


def test_validate_finds_it(tmp_path):
    """Before anything is started."""
    file = tmp_path / "router.yaml"
    file.write_text(SCHEDULER + AUTH)
    done = CliRunner().invoke(main, ["validate", str(file)])
    assert done.exit_code == 1
    assert "checks no tokens" in done.output


@pytest.mark.parametrize(
    ("written", "line"),
    [("|-\n    {}", 10), ("|\n\n    # from production\n    {}", 12), ("{!r}", 5)],
    ids=["block", "block with a comment", "quoted"],
)
def test_validate_finds_it_in_a_config_map(tmp_path, written, line):
    """Which is how Kthena's router is given it; the place is that in the manifest."""
    text = SCHEDULER + "  plugin: []\n" + AUTH
    if written == "{!r}":
        value = '"' + text.replace("\n", "\\n") + '"'
    else:
        value = written.format(text.replace("\n", "\n    "))
    file = tmp_path / "router.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: router, namespace: kthena}\ndata:\n"
        f"  routerConfiguration: {value}\n"
    )
    done = CliRunner().invoke(main, ["validate", str(file), "-o", "json"])
    assert done.exit_code == 1
    [unknown, auth] = sorted(json.loads(done.output), key=lambda found: found["path"], reverse=True)
    assert auth["object"] == "ConfigMap kthena/router"
    assert (auth["path"], auth["line"]) == ("data.routerConfiguration: auth", line)
    assert "checks no tokens" in auth["message"]
    assert unknown["path"] == "data.routerConfiguration: scheduler.plugin"
    assert "there is no such field" in unknown["message"]


def test_a_picker_in_a_config_map_is_judged_by_its_kind(tmp_path):
    """Under whatever key; other texts are nobody's business."""
    file = tmp_path / "picker.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: picker}\ndata:\n"
        "  readme: 'a: [}'\n  other.yaml: |\n    auth: none\n"
        "  plugins.yaml: |\n    apiVersion: llm-d.ai/v1alpha1\n    kind: EndpointPickerConfig\n"
        "    plugins: [{type: queue-scorrer}]\n"
    )
    done = CliRunner().invoke(main, ["validate", str(file)])
    assert done.exit_code == 1
    assert f"{file}:11:22: error: ConfigMap default/picker: data.plugins.yaml: plugins[0].type" in done.output
    assert "did you mean queue-scorer?" in done.output
    assert "1 object in 1 file: 1 error\n" in done.output


async def test_a_gateway_does_not_start(kubeconfig, tmp_path):
    """The process ends with the reason, and never listens."""
    file = tmp_path / "router.yaml"
    file.write_text(SCHEDULER + AUTH)
    command = [sys.executable, "-m", "headgate", "gateway", "--kubeconfig", str(kubeconfig), "--port", "0"]
    command += ["--metrics-port", "0", "--admin-port", "0", "--scheduling-config-file", str(file)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "auth" in done.stderr
    assert "ignore_auth" in done.stderr
    assert "is ready" not in done.stderr


async def test_a_running_gateway_does_not_take_it_up(start_gateway, tmp_path, eventually):
    """It goes on by what it had, and its readiness page says what is wrong with the file."""
    file, settings = tmp_path / "router.yaml", tmp_path / "gateway.yaml"
    file.write_text(SCHEDULER)
    settings.write_text(f"scheduling: {{config_file: {file}}}\nlogging: {{access_log: off}}\n")
    gateway = await start_gateway("--config", str(settings))
    file.write_text(SCHEDULER + AUTH)
    await eventually(lambda: "checks no tokens" in str(gateway.get("/readyz").json()))
    assert gateway.get("/readyz").status_code == 200
    assert gateway.config()["scheduling"]["configuration"]["dialect"] == "Kthena"
