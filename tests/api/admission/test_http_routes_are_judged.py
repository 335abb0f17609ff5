"""HTTPRoutes: their annotations about fallbacks are judged as those of pools are."""

import pytest

from headgate.api import admission

GROUP = "inference.networking.k8s.io"
POOL = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "InferencePool",
    "metadata": {"name": "pool", "namespace": "default"},
    "spec": {"selector": {"matchLabels": {"app": "chat"}}, "targetPorts": [{"number": 8000}]},
}
TO_POOL = {"group": GROUP, "kind": "InferencePool", "name": "pool"}
FIELD = "metadata.annotations[headgate.dev/fallback]"


def judged(annotations, backend=TO_POOL):
    route = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "chat", "namespace": "default", "annotations": annotations},
        "spec": {"rules": [{"backendRefs": [backend]}]},
    }
    found = admission.check(route, None, admission.Gathered([POOL, route]))
    return [error.field for error in found.errors], found.warnings


@pytest.mark.parametrize("value", ["pool=pool", "provider=openai", "provider=openai/gpt-4o, pool=pool"])
def test_what_is_valid(value):
    """Providers are known to gateways only."""
    assert judged({"headgate.dev/fallback": value}) == ([], [])


@pytest.mark.parametrize("value", ["", "a,a", "provider=", "provider=OpenAI", "provider=openai/", "pool=A"])
def test_what_is_invalid(value):
    assert judged({"headgate.dev/fallback": value}) == ([FIELD], [])


@pytest.mark.parametrize(
    ("annotations", "backend", "told"),
    [
        ({"fallback": "small"}, TO_POOL, 'no object serves the model "small" among these manifests'),
        ({"fallback": "pool=spare"}, TO_POOL, 'there is no pool "spare" among these manifests'),
        ({"fallback-on": "error"}, TO_POOL, "has no effect without headgate.dev/fallback"),
        ({"fallback": "provider=openai"}, {"name": "web", "port": 80}, "no backend of the route is an"),
    ],
)
def test_what_has_no_effect(annotations, backend, told):
    named = {f"headgate.dev/{name}": value for name, value in annotations.items()}
    errors, (warning,) = judged(named, backend)
    assert not errors
    assert told in warning
