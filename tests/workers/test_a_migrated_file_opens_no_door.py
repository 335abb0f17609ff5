"""A configuration that authenticates requests in Kthena's router does so here."""

import json
import logging

import pytest
from click.testing import CliRunner

from headgate.cli import main
from headgate.cli.gateway import configuration
from headgate.dataplane.credentials import required

SCHEDULER = "scheduler:\n  plugins:\n    Score: {enabled: [{name: least-request}]}\n"
AUTH = "auth:\n  issuer: https://issuer.example\n  jwksUri: https://issuer.example/jwks\n"
BARE = "pluginConfig: []\nplugins: {Score: {enabled: [{name: least-request}]}}\n"


@pytest.mark.parametrize("text", [SCHEDULER + AUTH, AUTH + BARE, AUTH])
def test_auth_is_required(tmp_path, text):
    """Wherever in the file it stands, and whether the rest is there or not."""
    file = tmp_path / "router.yaml"
    file.write_text(text)
    settings = configuration.load(None, {"scheduling_config_file": str(file)})
    assert required.are_required(settings.auth, settings.scheduling.content)
    found = required.trusted(settings.auth, settings.scheduling.content)
    assert found.keys == "https://issuer.example/jwks"
    assert (found.issuer.name, found.issuer.audiences) == ("https://issuer.example", ())


@pytest.mark.parametrize(
    ("auth", "field", "told"),
    [
        ("{}", "auth.jwksUri", "it is required"),
        ("{jwksUri: somewhere}", "auth.jwksUri", "neither an http(s) URL"),
        ("{jwksUri: https://a, issuer: 3}", "auth.issuer", "3"),
        ("{jwksUri: https://a, audiences: a}", "auth.audiences", "a"),
        ("none", "auth", "it must be a mapping"),
        ("{jwksUri: https://a, leeway: 3}", "auth.leeway", "there is no such field"),
    ],
)
def test_a_section_that_makes_no_sense_is_refused(tmp_path, auth, field, told):
    """With its place: a gateway must not start without what it says."""
    file = tmp_path / "router.yaml"
    file.write_text(f"{SCHEDULER}auth: {auth}\n")
    with pytest.raises(configuration.ConfigurationErrors) as raised:
        configuration.load(None, {"scheduling_config_file": str(file)})
    [line] = str(raised.value).splitlines()
    assert line.startswith(f"{file}:4:")
    assert f"{field}: " in line
    assert told in line


def test_a_picker_does_not_start_with_it(tmp_path):
    """It authenticates nobody: every request would be let in."""
    file = tmp_path / "router.yaml"
    file.write_text(SCHEDULER + AUTH)
    done = CliRunner().invoke(main, ["picker", "--pool-name", "a", "--config-file", str(file)])
    assert done.exit_code != 0
    assert "checks no tokens" in done.output


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


def test_validate_finds_errors_in_it(tmp_path):
    """Before anything is started."""
    file = tmp_path / "router.yaml"
    file.write_text(SCHEDULER + "auth: {issuer: a}\n")
    done = CliRunner().invoke(main, ["validate", str(file)])
    assert done.exit_code == 1
    assert "auth.jwksUri" in done.output


@pytest.mark.parametrize(
    ("written", "line"),
    [("|-\n    {}", 10), ("|\n\n    # from production\n    {}", 12), ("{!r}", 5)],
    ids=["block", "block with a comment", "quoted"],
)
def test_validate_finds_it_in_a_config_map(tmp_path, written, line):
    """Which is how Kthena's router is given it; the place is that in the manifest."""
    text = SCHEDULER + "  plugin: []\n" + AUTH.replace("jwksUri", "uri")
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
    found = {
        each["path"].removeprefix("data.routerConfiguration: "): each for each in json.loads(done.output)
    }
    auth, unknown = found["auth.jwksUri"], found["scheduler.plugin"]
    assert auth["object"] == "ConfigMap kthena/router"
    assert auth["line"] == line
    assert auth["message"] == "it is required"
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


async def test_a_running_gateway_takes_it_up(start_gateway, tmp_path, eventually):
    """Its clients need tokens from then on, and what makes no sense is told by its readiness page."""
    file, settings = tmp_path / "router.yaml", tmp_path / "gateway.yaml"
    file.write_text(SCHEDULER)
    settings.write_text(f"scheduling: {{config_file: {file}}}\nlogging: {{access_log: off}}\n")
    gateway = await start_gateway("--config", str(settings))
    models = f"{gateway.url}/v1/models"
    assert gateway.http.get(models).status_code == 200
    file.write_text(SCHEDULER + "auth: {}\n")
    await eventually(lambda: "auth.jwksUri" in str(gateway.get("/readyz").json()))
    assert gateway.http.get(models).status_code == 200
    file.write_text(SCHEDULER + AUTH)
    await eventually(lambda: gateway.http.get(models).status_code == 401)
