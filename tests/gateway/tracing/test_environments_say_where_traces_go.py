"""OpenTelemetry's standard variables: whether, where and how traces are exported; settings come first."""

import pytest

from headgate.cli.gateway import configuration
from headgate.gateway.settings import InvalidSettings
from headgate.telemetry.tracing import environment

URL = "http://collector:4318"


@pytest.mark.parametrize(
    ("given", "endpoint"),
    [
        ({}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": URL}, ""),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": URL}, ""),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, ""),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": URL}, None),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_EXPORTER_OTLP_ENDPOINT": URL}, None),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": URL}, None),
    ],
)
def test_variables_decide_whether_traces_are_exported(given, endpoint):
    """The SDK reads the address itself."""
    found = environment.resolve("", None, given)
    assert (found.endpoint if found is not None else None) == endpoint


@pytest.mark.parametrize(
    ("exporters", "told"),
    [
        ("jaeger", "'jaeger': only otlp and none are supported, and no traces are exported: most"),
        ("zipkin,console", "'zipkin', 'console': only otlp and none are supported, and no traces"),
        ("otlp,console", "'console': only otlp and none are supported"),
        ("otlp", ""),
        ("none", ""),
        ("", ""),
    ],
)
def test_exporters_that_do_not_exist_are_told(exporters, told):
    """Instead of exporting nothing in silence."""
    given = {environment.EXPORTER: exporters, "OTEL_EXPORTER_OTLP_ENDPOINT": URL}
    found = environment.ignored_exporters("", given)
    assert found.startswith(told)
    assert bool(found) == bool(told)
    assert environment.ignored_exporters("", {**given, "OTEL_SDK_DISABLED": "true"}) == ""
    warnings = configuration.judge(None, {}, given).findings
    assert [each.path for each in warnings] == ([environment.EXPORTER] if told else [])


@pytest.mark.parametrize("setting", ["http://here:4318", "http://here:4318/", "http://here:4318/v1/traces"])
def test_the_setting_comes_first(setting):
    """It may be the base URL, or that of traces."""
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": URL, "OTEL_TRACES_EXPORTER": "none"}
    assert environment.resolve(setting, None, given).endpoint == "http://here:4318/v1/traces"
    assert environment.resolve(setting, None, {**given, "OTEL_SDK_DISABLED": "TRUE"}) is None


@pytest.mark.parametrize(
    ("sampler", "argument", "ratio", "follows_parents"),
    [
        ("", "", 0.01, True),
        ("always_on", "", 1.0, False),
        ("always_off", "", 0.0, False),
        ("traceidratio", "0.25", 0.25, False),
        ("parentbased_always_on", "", 1.0, True),
        ("parentbased_always_off", "", 0.0, True),
        ("parentbased_traceidratio", "0.5", 0.5, True),
        ("parentbased_traceidratio", "", 1.0, True),
        ("parentbased_traceidratio", "2", 1.0, True),
        ("jaeger_remote", "", 0.01, True),
    ],
)
def test_samplers(sampler, argument, ratio, follows_parents):
    """As the specification has them, but for the default; what is not understood is told and ignored."""
    given = {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_TRACES_SAMPLER": sampler,
        "OTEL_TRACES_SAMPLER_ARG": argument,
    }
    found = environment.resolve("", None, given)
    assert (found.ratio, found.follows_parents) == (ratio, follows_parents)
    assert bool(found.warnings) == (argument == "2" or sampler == "jaeger_remote")
    assert environment.resolve("", 0.125, given).ratio == 0.125


def test_another_protocol_is_told():
    """There is no gRPC."""
    found = environment.resolve(URL, None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
    assert "http/protobuf" in found.warnings[0]


def test_credentials_are_not_shown():
    """The log has the address."""
    given = {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://me:secret@collector:4318"}
    assert environment.resolve("", None, given).shown == "https://collector:4318"


@pytest.mark.parametrize(
    "url", ["collector:4318", "ftp://x", "http://", "http://me:pw@x", "http://x?token=1"]
)
def test_bad_urls_are_refused(url):
    """Before the gateway starts, with what is needed."""
    with pytest.raises(InvalidSettings, match=r"tracing-endpoint.*(URL|OTEL_EXPORTER_OTLP_HEADERS)"):
        configuration.load(None, {"tracing_endpoint": url}, {})


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])
@pytest.mark.parametrize("url", ["localhost:4318", "collector", "grpc://collector:4317", "http://x:port"])
def test_bad_urls_of_variables_are_refused(name, url):
    """Like those of the setting, unless no traces are exported there."""
    with pytest.raises(InvalidSettings, match=rf"{name}: '{url}' is not a URL: one such as http://"):
        configuration.load(None, {}, {name: url})
    configuration.load(None, {"tracing_endpoint": URL}, {name: url})
    configuration.load(None, {}, {name: url, "OTEL_SDK_DISABLED": "true"})


@pytest.mark.parametrize(
    ("flags", "variables", "asked"),
    [
        ({"tracing_endpoint": URL}, {}, "tracing.endpoint"),
        ({}, {"OTEL_EXPORTER_OTLP_ENDPOINT": URL}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ],
)
def test_what_is_not_installed_is_told(monkeypatch, flags, variables, asked):
    """With how to install it."""
    monkeypatch.setattr(environment, "PACKAGES", ("opentelemetry-sdk", "no-such-package"))
    with pytest.raises(InvalidSettings) as caught:
        configuration.load(None, flags, variables)
    (told,) = caught.value.errors
    assert asked in told
    assert "no-such-package" in told
    assert "headgate[otel]" in told
    configuration.load(None, {}, {})
