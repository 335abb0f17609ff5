"""`headgate validate --kubeconfig` adds what only the server knows: what was before, what exists there."""

import pytest

SERVER = (
    "---\napiVersion: networking.volcano.sh/v1alpha1\nkind: ModelServer\nmetadata: {name: chat}\nspec:\n"
    "  inferenceEngine: vLLM\n  workloadSelector: {matchLabels: {app: chat}}\n  workloadPort: {port: 80}\n"
)


@pytest.fixture
def route(headgate, route):
    """Routes for a model that no other test has on the server."""

    def make(server: str = "chat") -> str:
        return route(server).replace("modelName: chat", f"modelName: {headgate.namespace}")

    return make


def test_what_must_not_change_is_told_at_its_line(headgate, route) -> None:
    """A route's model name is fixed once the route exists."""
    headgate("apply", "-f", "-", stdin=route() + SERVER)
    result = headgate.run("validate", "-", stdin=route().replace("modelName: ", "modelName: not-"))
    assert result.exit_code == 1, result.output
    assert f"<stdin>:6:14: error: ModelRoute {headgate.namespace}/chat: spec.modelName: " in result.stdout
    assert "immutable" in result.stdout
    assert result.stdout.endswith("1 object in 1 file: 1 error\n")


def test_a_target_is_missing_only_if_neither_has_it(headgate, route) -> None:
    """Not on the server, but among the manifests; then the other way round; then nowhere."""
    assert headgate("validate", "-", stdin=route() + SERVER) == "2 objects in 1 file: valid\n"
    headgate("apply", "-f", "-", stdin=SERVER)
    assert headgate("validate", "-", stdin=route()) == "1 object in 1 file: valid\n"
    output = headgate(
        "validate", "-", stdin=route().replace("modelServerName: chat", "modelServerName: nowhere")
    )
    assert output.count("warning: ") == 1
    assert "there is no ModelServer" in output


def test_what_the_manifests_make_themselves_need_not_exist(headgate, route) -> None:
    """A namespace that goes with its objects."""
    namespace = "---\n{apiVersion: v1, kind: Namespace, metadata: {name: to-come}}\n"
    there = (route() + SERVER).replace("{name: chat", "{namespace: to-come, name: chat")
    assert headgate("validate", "-", stdin=namespace + there) == "3 objects in 1 file: valid\n"
    result = headgate.run("validate", "-", stdin=there)
    assert result.exit_code == 1
    assert 'error: ModelRoute to-come/chat: namespaces "to-come" not found' in result.stdout


def test_nothing_is_stored(headgate, route) -> None:
    """All of it is a dry run."""
    headgate("validate", "-", stdin=route() + SERVER)
    assert headgate.run("get", "mr").stdout == ""
