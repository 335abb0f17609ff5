"""The typed objects read and write the JSON of Kubernetes."""

import msgspec

from headgate import api


def test_unknown_fields_are_ignored_and_defaults_are_left_out() -> None:
    """An object of a newer version decodes; what is encoded has only what was set."""
    route = msgspec.json.decode(
        b'{"apiVersion":"networking.volcano.sh/v1alpha1","kind":"ModelRoute","metadata":{"name":"a"},'
        b'"spec":{"modelName":"m","new":1,"rules":[{"targetModels":[{"modelServerName":"s"}]}]}}',
        type=api.ModelRoute,
    )
    assert route.spec.rules[0].target_models[0].weight == 100
    assert msgspec.json.decode(msgspec.json.encode(route)) == {
        "apiVersion": "networking.volcano.sh/v1alpha1",
        "kind": "ModelRoute",
        "metadata": {"name": "a"},
        "spec": {"modelName": "m", "rules": [{"targetModels": [{"modelServerName": "s"}]}]},
    }


def test_names_with_capitals_and_keywords_are_kept() -> None:
    """podIP is not podIp, and `global` is a field although Python has the word for itself."""
    status = msgspec.json.decode(b'{"podIP":"127.0.0.2"}', type=api.PodStatus)
    assert status.pod_ip == "127.0.0.2"
    route = msgspec.convert(
        {
            "spec": {
                "rules": [],
                "rateLimit": {"inputTokensPerUnit": 1, "global": {"redis": {"address": "r:6379"}}},
            }
        },
        api.ModelRoute,
    )
    limit = route.spec.rate_limit
    assert limit is not None
    assert limit.global_ is not None
    assert limit.global_.redis is not None
    assert limit.global_.redis.address == "r:6379"


def test_a_pod_is_ready_only_while_it_is_not_being_deleted() -> None:
    """A Pod that is on its way out gets no new requests although its probe still succeeds."""
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert msgspec.convert(ready, api.Pod).ready
    going = {**ready, "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert not msgspec.convert(going, api.Pod).ready
    for phase in ("Succeeded", "Failed"):
        ended = {"status": {**ready["status"], "phase": phase}}
        assert not msgspec.convert(ended, api.Pod).ready
    assert not api.Pod().ready


def test_selectors_match_labels_and_expressions() -> None:
    """matchLabels and every expression must hold; an empty selector takes everything."""
    selector = msgspec.convert(
        {
            "matchLabels": {"app": "a"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["x", "y"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "zone", "operator": "NotIn", "values": ["z"]},
                {"key": "app", "operator": "Exists"},
            ],
        },
        api.LabelSelector,
    )
    assert selector.matches({"app": "a", "tier": "x"})
    assert not selector.matches({"app": "a", "tier": "z"})
    assert not selector.matches({"app": "a", "tier": "x", "old": ""})
    assert not selector.matches({"app": "a", "tier": "x", "zone": "z"})
    assert not selector.matches({"app": "b", "tier": "x"})
    assert api.LabelSelector().matches({})


def test_resources_know_their_paths() -> None:
    """The URL of a collection, an object and a subresource, in a namespace, in all, and without any."""
    assert api.Pod.resource.path("default", "a", "log") == "/api/v1/namespaces/default/pods/a/log"
    assert api.Deployment.resource.path() == "/apis/apps/v1/deployments"
    assert api.Node.resource.path("ignored", "n") == "/api/v1/nodes/n"
    assert api.Deployment.resource.qualified_name == "deployments.apps"
