"""Whatever is wrong with a scheduler's configuration is told at once, with its path and a fix (B56)."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from headgate.scheduling import configuration
from headgate.scheduling.plugins import NoPrefixes
from headgate.scheduling.plugins.catalogue import KTHENA, PICKER

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"


def errors(text: str) -> list[tuple[str, str, str]]:
    reading = configuration.read(yaml.safe_load(text))
    found = [(e.path, e.message, e.suggestion) for e in reading.problems if e.severity == "error"]
    assert (reading.plan is None) == bool(found)
    return found


def test_all_errors_are_told_at_once():
    """Unknown fields and types, duplicates, ranges, references, handlers: one line for each."""
    found = errors(
        HEAD
        + """
featureGates: [flowControl, flowContrl]
plugins:
- {type: queue-scorer}
- {type: queue-scorer}
- {type: prefix-cache-scorer, name: gpu-prefix, parameters: {matchLengthWeigth: 1}}
- {type: session-affinity-scorer}
- {type: quue-scorer}
- {type: load-aware-scorer, parameters: {threshold: 0}}
- {type: single-profile-handler}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: nobody}}}
- {name: x}
- {type: mm-embeddings-cache-scorer}
- {type: token-load-scorer, parameters: {queueThresholdTokens: many}}
- {type: active-request-scorer, parameters: {inFlightLoadProducerName: nobody}}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer, weight: -2}, {pluginRef: gpu-prefx, weight: 3}]
flowControl: {priorityBands: [{priority: 1}, {priority: 2, orderingPolicyRef: nobody}]}
extra: 1
"""
    )
    paths = {path: (message, fix) for path, message, fix in found}
    assert paths["featureGates[1]"] == ("there is no gate flowContrl", "did you mean flowControl?")
    assert paths["plugins[1].type"][0] == "a second plugin is called queue-scorer"
    assert paths["plugins[2].parameters.matchLengthWeigth"][1] == "did you mean matchLengthWeight?"
    assert (
        paths["plugins[3].type"][1] == "allow it with the setting scheduling.allow_experimental_plugins: true"
    )
    assert paths["plugins[4].type"][1] == "did you mean queue-scorer?"
    assert paths["plugins[5].parameters.threshold"][0] == "0: expected int >= 1"
    assert paths["plugins[7].type"] == (
        "single-profile-handler is a profile handler already",
        "leave one of them",
    )
    assert "plugins[7].parameters.deciders.prefill" in paths
    assert paths["plugins[7].parameters.profiles.decode"][0] == "there is no scheduling profile decode"
    assert paths["plugins[8].type"][0] == "it is required"
    assert "is not supported" in paths["plugins[9].type"][0]
    assert paths["plugins[10].parameters.queueThresholdTokens"][0] == '"many": expected float, got str'
    assert "plugins[11].parameters.inFlightLoadProducerName" in paths
    assert "schedulingProfiles[0].plugins[0].weight" in paths
    assert paths["schedulingProfiles[0].plugins[1].pluginRef"][1] == "did you mean gpu-prefix?"
    assert "flowControl.priorityBands[1].orderingPolicyRef" in paths
    assert paths["extra"][0] == "there is no such field"
    assert len(found) == 18


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("apiVersion: v1\nkind: EndpointPickerConfig\nplugins: []\n", "apiVersion"),
        ("apiVersion: llm-d.ai/v1alpha1\nkind: Config\nplugins: []\n", "kind"),
        (HEAD + "plugins: 3\n", "plugins"),
        (HEAD + "plugins: [3]\n", "plugins[0]"),
        ("- 1\n", ""),
        ("other: 1\n", ""),
        ("kind: ConfigMap\ndata: {routerConfiguration: 'scheduler: {}'}\n", "kind"),
        (HEAD + "plugins: [{type: queue-scorer, parameters: [1]}]\n", "plugins[0].parameters"),
        (
            HEAD
            + "plugins: [{type: queue-scorer}, {type: max-score-picker}, {type: random-picker}]\n"
            + "schedulingProfiles: [{name: a, plugins: [{pluginRef: max-score-picker}, "
            + "{pluginRef: random-picker}]}]\n",
            "schedulingProfiles[0].plugins",
        ),
        (
            HEAD + "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a}, {name: b}]\n",
            "schedulingProfiles",
        ),
        (
            HEAD + "plugins: [{type: queue-scorer}]\nschedulingProfiles: [{name: a}, {name: a}]\n",
            "schedulingProfiles[1].name",
        ),
        (
            HEAD
            + "plugins: [{type: single-profile-handler}]\n"
            + "schedulingProfiles: [{name: a, plugins: [{pluginRef: single-profile-handler}]}]\n",
            "schedulingProfiles[0].plugins[0].pluginRef",
        ),
        (
            HEAD + "plugins: [{type: label-selector-filter, parameters: {matchExpressions: "
            "[{key: a, operator: In}]}}]\n",
            "plugins[0].parameters.matchExpressions[0]",
        ),
    ],
)
def test_an_error_names_its_place(text, path):
    """One thing is wrong, and one error says where."""
    assert [each[0] for each in errors(text)] == [path]


def test_a_bad_weight_factor_of_kthena_is_fatal():
    """Outside of 0 to 1, or no finite number."""
    for factor in ("1.5", "-0.1", ".nan", ".inf", "half"):
        text = "scheduler: {pluginConfig: [{name: least-latency, args: {TTFTTPOTWeightFactor: %s}}]}\n"
        (error,) = errors(text % factor)
        assert error[0] == "scheduler.pluginConfig[0].args.TTFTTPOTWeightFactor"


FIELDS = """plugins type name parameters schedulingProfiles pluginRef weight scheduler pluginConfig args
Filter Score enabled kind apiVersion flowControl dataLayer sources EndpointPickerConfig llm-d.ai/v1alpha1"""
words = st.sampled_from([*FIELDS.split(), *PICKER, *KTHENA])
values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats() | words | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(words, values, max_size=6))
def test_no_document_is_too_wrong_to_be_judged(document):
    """Every document is a plan or has errors, each with a message; a plan makes a policy."""
    reading = configuration.read(document)
    assert all(problem.message for problem in reading.problems)
    if reading.plan is None:
        assert any(problem.severity == "error" for problem in reading.problems)
    else:
        reading.plan.policy(NoPrefixes())
