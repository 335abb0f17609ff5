"""The ConfigMaps of planning, with values that are right, wrong and missing."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.planning import config_maps, config_values
from headgate.planning.config_maps import ClassKey, Configuration, ScaleToZero, promql_range
from headgate.planning.system import Accelerator, Target

COSTS = {
    "A100": '{"device": "NVIDIA-A100-PCIE-80GB", "cost": "40.00"}',
    "L40S": '{"device": "NVIDIA-L40S", "cost": "32.00"}',
}
PREMIUM = """
name: Premium
priority: 1
data:
  - model: default/default
    slo-tpot: 24
    slo-ttft: 500
  - model: llama0-70b
    slo-tpot: 80
    slo-ttft: 500
"""
CLASSES = {"premium.yaml": PREMIUM}


def read(costs=COSTS, classes=CLASSES, main=None, zero=None, **more: object) -> Configuration:
    return config_maps.read(costs, classes, main, zero, **more)


def of_class(text: str) -> Configuration:
    return read(classes={"premium.yaml": text})


def told(found: Configuration) -> list[str]:
    return [each.message.removeprefix(f"ConfigMap {config_maps.NAMESPACE}/") for each in found.problems]


def test_formats_of_the_reference_are_read() -> None:
    """Costs in JSON, classes in YAML; defaults without the two other ConfigMaps."""
    found = read()
    assert found.accelerators["A100"] == Accelerator(name="A100", type="NVIDIA-A100-PCIE-80GB", cost=40)
    premium = found.classes[config_maps.NAMESPACE, config_maps.CLASSES, "premium.yaml"]
    assert (premium.name, premium.rank) == ("Premium", 1)
    assert premium.model_targets[0] == Target(model="default/default", itl=24, ttft=500)
    assert [each.model for each in premium.model_targets] == ["default/default", "llama0-70b"]
    assert (found.period_s, found.prometheus, found.problems) == (60, None, ())
    assert found.scale_to_zero_of("m") == ScaleToZero(False, 600)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            '{"device":"d","cost":40}',
            'field cost: 40 is not text with a number of cents per hour; write "cost": "40"',
        ),
        ('{"device":"d","cost":"abc"}', 'field cost: "abc" is not text with a number of cents'),
        ('{"device":"d","cost":"-1"}', 'field cost: "-1" is not text with a number of cents'),
        ('{"device":"d","cost":"NaN"}', 'field cost: "NaN" is not text with a number of cents'),
        ('{"device":"d"}', 'field cost: is missing; write it as in "cost": "40.00"'),
        ("40", '"40" is not a JSON object'),
        ("{", "is not JSON"),
    ],
)
def test_an_accelerator_without_a_cost_is_left_out(value, message) -> None:
    """Case 6. The reference aborts its pass at a number without quotes; here, one accelerator has no cost."""
    found = read(costs={**COSTS, "G2": value})
    assert set(found.accelerators) == {"A100", "L40S"}
    (problem,) = told(found)
    assert problem.startswith(
        f"accelerator-unit-costs, key G2{', ' if 'field' in message else ': '}{message}"
    )


def test_missing_config_maps_are_reported() -> None:
    """Costs and classes are necessary, the others have defaults."""
    assert told(read(None, None)) == [
        "accelerator-unit-costs: does not exist; create it with a key for each accelerator",
        "service-classes-config: does not exist; create it with a key for each service class",
    ]


@pytest.mark.parametrize(
    ("priority", "rank"), [(0, 100), (101, 100), (-5, 100), (1, 1), (10, 10), (100, 100)]
)
def test_priorities_out_of_range_are_the_last(priority, rank) -> None:
    """Case 7. Who takes 0 for the most important is told."""
    found = of_class(f"{{name: C, priority: {priority}}}")
    assert [each.rank for each in found.classes.values()] == [rank]
    message = f"{priority} is not from 1 to 100; 100, the least important, is used; 1 is the most important"
    assert [each.rpartition("field priority: ")[2] for each in told(found)] == [message] * (priority != rank)
    assert all(each.is_warning for each in found.problems)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{name: C, data: [", "is not YAML (line "),
        ("- name: C", "is not a YAML mapping"),
        ("data: &a [*a]", "has an alias in line 1"),
        ("a: !!bool x", "is not YAML ("),
        ("[" * 50, "is nested more than 20 levels deep"),
        ("x" * 70_000, "has more than 65536 bytes"),
    ],
)
def test_a_broken_class_is_left_out(text, message) -> None:
    """The others are used; in the reference, every lookup that meets the key fails."""
    found = read(classes={"broken.yaml": text, **CLASSES})
    assert [each.name for each in found.classes.values()] == ["Premium"]
    (problem,) = told(found)
    assert message in problem


def test_a_broken_target_leaves_the_others() -> None:
    """Each with its field, value, and fix."""
    found = of_class("""
name: 7
priority: high
slo-percentile: 99
color: red
data:
  - {model: a, slo-tpot: 24, slo-ttft: 500, slo-percentile: mean}
  - {model: b, slo-tpot: fast}
  - {model: a, slo-tpot: 1}
  - {slo-tpot: 1}
  - {model: c, slo-itl: 9}
""")
    (premium,) = found.classes.values()
    assert (premium.name, premium.rank) == ("premium", 100)
    assert premium.model_targets == [
        Target(model="a", itl=24, ttft=500, percentile=99),
        Target(model="c", percentile=99),
    ]
    start = "service-classes-config, key premium.yaml, field "
    assert [each.removeprefix(start) for each in told(found)] == [
        "color: is not a known field, and is ignored; known fields are data, name, priority, slo-percentile",
        "name: 7 is no name; the class is called premium; write text",
        'priority: "high" is not a whole number; 100, the least important, is used; write one from 1 to 100',
        'data[0].slo-percentile: "mean" is not a percentage from 1 to 99.99; the default is used; '
        "write it as in 95",
        'data[1].slo-tpot: "fast" is not a number of milliseconds; the model has no targets in this class; '
        "write it as in 500",
        'data[2].model: "a" occurs twice; its first targets are used; remove one',
        'data[3]: {"slo-tpot": 1} has no model; write the modelID of a VariantAutoscaling, in quotes if '
        "it looks like a number",
        "data[4].slo-itl: is not a known field, and is ignored; write slo-tpot",
    ]
    assert [each.model for each in found.problems] == ["", "", "", "a", "b", "a", "", "c"]


def test_classes_of_other_config_maps_are_read() -> None:
    """Those that VariantAutoscalings refer to, also in their own namespaces."""
    found = read(other_classes={("llm", "mine"): {"gold": "{name: Gold, priority: 2}", "bad": "["}})
    assert found.classes["llm", "mine", "gold"].name == "Gold"
    assert found.problems[0].config_map == "llm/mine"
    assert len(found.classes) == 2


@pytest.mark.parametrize(
    ("text", "period_s", "fix"),
    [
        ("30s", 30, None),
        ("1m30s", 90, None),
        ("", 60, None),
        ("60", 60, "write it as in 60s"),
        ("1 minute", 60, "write 1m"),
        ("0s", 60, "write it as in 60s"),
        ("1ns", 60, "write it as in 60s"),
    ],
)
def test_the_period_is_a_duration(text, period_s, fix) -> None:
    """60 s where it is missing or wrong, which the reference retries forever."""
    found = read(main={"GLOBAL_OPT_INTERVAL": text})
    assert found.period_s == period_s
    assert [each.fix for each in found.problems] == ([fix] if fix else [])


def test_the_environment_comes_before_the_config_map() -> None:
    """For Prometheus as for everything; tokens are not shown."""
    main = {
        "PROMETHEUS_BASE_URL": "https://one:9090",
        "PROMETHEUS_TLS_INSECURE_SKIP_VERIFY": "true",
        "PROMETHEUS_BEARER_TOKEN": "s3cret",
        "PROMETHEUS_TOKEN_PATH": "/token",
        "PROMETHEUS_CLIENT_CERT_PATH": "/crt",
    }
    found = read(main=main, environment={"PROMETHEUS_BASE_URL": "https://two:9090/"})
    assert found.prometheus is not None
    assert (found.prometheus.url, found.prometheus.skips_verification) == ("https://two:9090", True)
    assert (found.prometheus.bearer_token, found.prometheus.token_path) == ("s3cret", "")
    assert found.prometheus.client_cert_path == ""
    assert "s3cret" not in repr(found)
    assert [each.key for each in found.problems] == ["PROMETHEUS_CLIENT_KEY_PATH"]


def test_the_path_of_a_token_is_not_read_from_a_config_map() -> None:
    """Whoever writes one could have any token of the controller sent anywhere."""
    main = {"PROMETHEUS_BASE_URL": "https://one:9090", "PROMETHEUS_TOKEN_PATH": "/token"}
    found = read(main=main)
    assert found.prometheus.token_path == ""
    assert [(each.key, each.is_warning) for each in found.problems] == [("PROMETHEUS_TOKEN_PATH", True)]
    found = read(main=main, environment={"PROMETHEUS_TOKEN_PATH": "/mine"})
    assert (found.prometheus.token_path, found.problems) == ("/mine", ())


@pytest.mark.parametrize(
    "url", ["http://one:9090", "one", "https://", "https://one:port", "https://[", "\x00"]
)
def test_prometheus_must_have_an_https_url(url) -> None:
    """Otherwise it is not asked, and everything else goes on."""
    found = read(main={"PROMETHEUS_BASE_URL": url})
    assert found.prometheus is None
    assert [each.key for each in found.problems] == ["PROMETHEUS_BASE_URL"]


@pytest.mark.parametrize(
    ("defaults", "model", "is_enabled", "retention_s"),
    [
        ("{enableScaleToZero: true, retentionPeriod: 15m}", "retentionPeriod: 5m", True, 300),
        ("{enableScaleToZero: true, retentionPeriod: 15m}", "enableScaleToZero: false", False, 900),
        ("{enableScaleToZero: true, retentionPeriod: 15m}", "retentionPeriod: abc", True, 900),
        ("{enableScaleToZero: true, retentionPeriod: -1m}", "{}", True, 600),
    ],
)
def test_a_model_comes_before_the_defaults(defaults, model, is_enabled, retention_s) -> None:
    """Case 9. A retention that is no duration above 0 is as if there were none."""
    own = f"{{modelID: m, {model.strip('{}')}}}"
    found = read(zero={"__defaults__": defaults, "model.m": own})
    assert found.scale_to_zero_of("m") == (is_enabled, retention_s)


@pytest.mark.parametrize(
    ("model", "defaults", "variable"),
    list(itertools.product((None, True, False), (None, True, False), ("", "true", "TRUE", "false", "1"))),
)
def test_scaling_to_zero_is_enabled_by_the_first_that_says_so(model, defaults, variable) -> None:
    """The model, the defaults, the environment; otherwise it is not."""
    zero = {}
    if defaults is not None:
        zero["__defaults__"] = f"enableScaleToZero: {str(defaults).lower()}"
    if model is not None:
        zero["model.m"] = f"{{modelID: m, enableScaleToZero: {str(model).lower()}}}"
    found = read(zero=zero, environment={"WVA_SCALE_TO_ZERO": variable})
    said = [each for each in (model, defaults) if each is not None]
    assert found.scale_to_zero_of("m").is_enabled is (said[0] if said else variable.lower() == "true")
    assert len(found.problems) == (variable == "1")


@pytest.mark.parametrize("name", ["WVA_LIMITED_MODE", "WVA_SCALE_TO_ZERO"])
def test_what_is_neither_true_nor_false_is_reported(name) -> None:
    """Otherwise "yes" would switch nothing on, silently."""
    (message,) = told(read(main={name: "yes"}))
    assert message.endswith(
        f'key {name}: "yes" is neither true nor false; false is used; write "true" or "false"'
    )


def test_unknown_fields_of_scaling_to_zero_are_reported() -> None:
    """Such as one with a letter of the wrong case."""
    found = read(zero={"model.m": "{modelID: m, enableScaletoZero: true}"})
    (problem,) = found.problems
    assert (problem.field, problem.model, problem.is_warning) == ("enableScaletoZero", "m", True)


def test_a_number_in_quotes_is_told_from_text() -> None:
    """Values are shown as JSON."""
    (message,) = told(of_class('{name: C, data: [{model: m, slo-tpot: "24"}]}'))
    assert '"24" is not a number of milliseconds' in message
    assert message.endswith("write it without quotes")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1ns", 1e-9), ("24h", 86400), ("25h", 90000), ("48h", 172800), ("1h30m", 5400)]
    + [(text, 600) for text in ("", "-5m", "0s", "5", "5x", "5 m")],
)
def test_a_retention_is_a_duration_above_zero(text, seconds) -> None:
    """More than a day is used, with a warning; nothing written is no error."""
    found = read(zero={"model.m": f"{{modelID: m, retentionPeriod: '{text}'}}"})
    assert found.scale_to_zero_of("m").retention_s == pytest.approx(seconds)
    assert [each.is_warning for each in found.problems] == (
        [True] if seconds > 86400 else [False] if seconds == 600 and text else []
    )


def test_the_first_key_of_a_model_counts() -> None:
    """In sorted order; keys without the prefix or a model are ignored, and said to be."""
    found = read(
        zero={
            "model.b": "{modelID: m, retentionPeriod: 2m}",
            "model.a": "{modelID: m, retentionPeriod: 1m}",
            "model.c": "retentionPeriod: 3m",
            "model.d": "[",
            "other": "{modelID: n, retentionPeriod: 4m}",
        }
    )
    assert found.scale_to_zero_of("m").retention_s == 60
    assert found.scale_to_zero_of("n").retention_s == 600
    assert [each.key for each in found.problems] == ["model.b", "model.c", "model.d", "other"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5400, "90m"),
        (7200, "2h"),
        (45, "45s"),
        (86400, "24h"),
        (90.5, "90500ms"),
        (1e-9, "1ms"),
        (600, "10m"),
    ],
)
def test_a_retention_is_a_range_of_promql(seconds, text) -> None:
    """Case 11. In one unit."""
    assert promql_range(seconds) == text


NAMES = ["modelID", "name", "data", "model", "slo-ttft", "priority", "cost", "device", "retentionPeriod"]
KEYS = ["__defaults__", "model.m", "PROMETHEUS_BASE_URL", "GLOBAL_OPT_INTERVAL", "x"]
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
)
DATA = st.none() | st.dictionaries(
    st.sampled_from(KEYS) | st.text(), st.text() | DOCUMENTS.map(json.dumps), max_size=4
)


@given(DATA, DATA, DATA, DATA)
def test_any_content_is_read(costs, classes, main, zero) -> None:
    """Whatever it is, there is a configuration, and every problem has its place."""
    found = config_maps.read(costs, classes, main, zero)
    assert all(each.config_map and each.message for each in found.problems)
    assert found.period_s >= 1
    assert found.scale_to_zero_of("m").retention_s > 0


def test_what_tenants_write_is_read_once(monkeypatch) -> None:
    """YAML takes long: a change of one ConfigMap must not read those of all tenants again."""
    seen: list[str] = []
    of_yaml = config_values.yaml_mapping
    monkeypatch.setattr(
        config_values, "yaml_mapping", lambda text, *rest: seen.append(text) or of_yaml(text, *rest)
    )
    reader, text = config_maps.ClassReader(), "{name: A, priority: 1, data: [{model: m}, {model: m}]}"
    given = {("a", "x"): {"k": text}, ("b", "x"): {"k": text}}
    first = read(other_classes=given, reader=reader)
    seen.clear()
    changed = given | {("b", "x"): {"k": "{name: B}"}}
    second = read(other_classes=changed, reader=reader)
    assert seen == ["{name: B}"]
    assert second.classes[ClassKey("a", "x", "k")] == first.classes[ClassKey("a", "x", "k")]
    assert [each.told for each in second.problems_of(ClassKey("a", "x", "k"))] == [
        "occurs twice; its first targets are used"
    ]


def test_a_huge_config_map_of_a_tenant_is_not_read() -> None:
    """It is reported at the objects that refer to it. That of all may be of any size."""
    large = {f"k{index}": "{name: A}" + " " * 60_000 for index in range(3)}
    found = read(classes=large, other_classes={("a", "x"): large})
    assert {each.namespace for each in found.classes} == {found.namespace}
    [problem] = found.problems_of(ClassKey("a", "x", "k1"))
    assert problem.message == (
        "ConfigMap a/x: has more than 131072 characters; split it into several ConfigMaps"
    )
