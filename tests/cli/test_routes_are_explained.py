"""`headgate route explain` tells where a request would go, from objects of a server or from manifests."""

import json

import pytest
from click.testing import CliRunner

from headgate.cli import main

OBJECTS = """
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelServer
metadata: {name: small}
spec: {inferenceEngine: vLLM, model: Qwen/Qwen3-8B, workloadSelector: {matchLabels: {app: small}}}
---
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelServer
metadata: {name: large}
spec: {inferenceEngine: vLLM, workloadSelector: {matchLabels: {app: large}}}
---
apiVersion: networking.volcano.sh/v1alpha1
kind: ModelRoute
metadata: {name: chat}
spec:
  modelName: chat
  rules:
    - name: premium
      modelMatch: {headers: {x-tier: {exact: premium}}}
      targetModels: [{modelServerName: large}]
    - name: everybody
      targetModels: [{modelServerName: small, weight: 90}, {modelServerName: large, weight: 10}]
"""

PODS = """
---
apiVersion: v1
kind: Pod
metadata: {name: small-1, labels: {app: small}}
status: {podIP: 127.0.0.2, conditions: [{type: Ready, status: "True"}]}
"""


def run(*arguments, stdin=None):
    return CliRunner().invoke(main, ["route", "explain", *arguments], input=stdin, catch_exceptions=False)


@pytest.fixture
def objects(tmp_path):
    file = tmp_path / "objects.yaml"
    file.write_text(OBJECTS)
    return str(file)


def test_a_model_that_was_not_read_is_not_shown(objects):
    """A path that is not forwarded is refused before the body is looked at."""
    done = run("--model", "chat", "--path", "/team-a/v1/foo", "--objects", objects)
    assert done.output.startswith("POST /team-a/v1/foo\n\nIt would be rejected:\n")


EXPECTED = """\
POST /v1/chat/completions, model "chat"

  > ModelRoute default/chat: the oldest for this name
        rule premium    header x-tier: "basic" is not exactly "premium"
      > rule everybody  fits every request

Targets, by weight:
  > ModelServer default/small  weight 90, 90%  each gateway keeps its own order
  > ModelServer default/large  weight 10, 10%  each gateway keeps its own order

ModelServer default/small: about 4 prompt tokens
    model "chat" becomes "Qwen/Qwen3-8B", and "chat" again in the response
    endpoints unknown: there are no Pods among the manifests

ModelServer default/large: about 4 prompt tokens
    the body is forwarded unchanged
    endpoints unknown: there are no Pods among the manifests

It would be sent to an endpoint of ModelServer default/small (90%) \
or sent to an endpoint of ModelServer default/large (10%).
"""


def test_manifests_alone(objects):
    """Each rule has its reason; what manifests cannot tell is said to be unknown."""
    result = run("--objects", objects, "--model", "chat", "-H", "x-tier=basic")
    assert (result.stdout, result.exit_code) == (EXPECTED, 0)


def test_manifests_with_pods(tmp_path, objects):
    """Pods as a cluster has them are endpoints; a target without one is refused when it has the turn."""
    with open(objects, "a") as file:
        file.write(PODS)
    result = run("--objects", objects, "--model", "chat")
    assert "  > default/small-1  127.0.0.2:8000  healthy" in result.stdout
    assert (
        "rejected with 503 Service Unavailable if ModelServer default/large is next (10%)." in result.stdout
    )
    assert result.exit_code == 0
    result = run("--objects", objects, "--model", "chat", "--header", "X-Tier: premium")
    assert "It would be rejected:\n    HTTP 503 Service Unavailable\n" in result.stdout
    assert "    x-headgate-dropped-reason: rejected-no-endpoints\n" in result.stdout
    assert "    retry-after: 1\n" in result.stdout
    assert "no_ready_endpoint" in result.stdout
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        ("", "there is no Secret default/engines"),
        (
            "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: engines}\nstringData: {a: b}",
            "(its keys: a)",
        ),
    ],
)
def test_what_verifies_endpoints_is_missing(objects, secret, told):
    """Why a pool behind https gets no requests, also where the Secret is among the manifests."""
    with open(objects) as file:
        secured = file.read().replace(
            "{name: small}", "{name: small, annotations: {headgate.dev/tls-ca: engines}}"
        )
    secured = secured.replace("app: small}}", "app: small}}, workloadPort: {port: 1, protocol: https}")
    with open(objects, "w") as file:
        file.write(secured + PODS + secret)
    assert told in run("--objects", objects, "--model", "chat", "-o", "json").stdout


def test_pods_that_are_no_endpoints(objects):
    """They are named with the reason, so that nobody looks for it elsewhere."""
    labels = "labels: {app: small}"
    with open(objects, "a") as file:
        file.write(PODS)
        for name, metadata, status in (
            ("small-2", labels, "{phase: Pending}"),
            (
                "small-3",
                labels,
                "{phase: Running, conditions: [{type: Ready, status: 'False', message: 'no engine yet'}]}",
            ),
            ("small-4", f"{labels}, deletionTimestamp: '2026-01-01T00:00:00Z'", "{phase: Running}"),
            ("small-5", labels, "{phase: Failed}"),
            ("other-1", "labels: {app: other}", "{phase: Pending}"),
            ("small-6", f"{labels}, namespace: elsewhere", "{phase: Pending}"),
        ):
            head = f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, {metadata}}}\n"
            file.write(f"{head}status: {status}\n")
    found = json.loads(run("--objects", objects, "--model", "chat", "-o", "json").stdout)
    small, large = found["targets"]
    assert small["absent"] == [
        "default/small-2: is not ready (Pending)",
        "default/small-3: is not ready (Running): no engine yet",
        "default/small-4: is being deleted",
        "default/small-5: has ended: Failed",
    ]
    assert [each["name"] for each in small["endpoints"]] == ["default/small-1"]
    assert large["absent"] == []
    text = run("--objects", objects, "--model", "chat").stdout
    assert "    default/small-2: is not ready (Pending)\n" in text


@pytest.mark.parametrize(
    ("reasons", "code", "told"),
    [
        (
            "no-endpoint",
            0,
            "It would be sent to default/large instead, by its fallback: no-endpoint.",
        ),
        ("error", 1, "Without fallbacks, or for another reason than theirs, it would be rejected:"),
    ],
)
def test_a_fallback_takes_the_request_over(tmp_path, reasons, code, told):
    """If it does so for the reason of the refusal. A Pod with an address serves, as in files of a gateway."""
    notes = f"annotations: {{headgate.dev/fallback: pool=large, headgate.dev/fallback-on: '{reasons}'}}"
    pod = """
---
apiVersion: v1
kind: Pod
metadata: {name: large-1, labels: {app: large}, annotations: {headgate.dev/address: "127.0.0.1:8001"}}
"""
    file = tmp_path / "objects.yaml"
    file.write_text(
        OBJECTS.replace("{name: chat}", f"{{name: chat, {notes}}}").replace(", weight: 90", "") + pod
    )
    rule = "[{modelServerName: small}, {modelServerName: large, weight: 10}]"
    file.write_text(file.read_text().replace(rule, "[{modelServerName: small}]"))
    done = run("--objects", str(file), "--model", "chat")
    assert (done.exit_code, told in done.output) == (code, True), done.output
    premium = run("--objects", str(file), "--model", "chat", "-H", "x-tier=premium")
    assert "It would be sent to default/large-1 (127.0.0.1:8001)" in premium.output


def test_name_without_a_route(objects):
    """The answer that a client would get, and the name that was meant."""
    result = run("--objects", objects, "--model", "chta", "--path", "/v1/messages", "-o", "json")
    found = json.loads(result.stdout)
    assert (found["routes"], found["similar"], found["answer"]["status"]) == ([], ["chat"], 404)
    assert json.loads(found["answer"]["body"])["type"] == "error"
    assert result.exit_code == 1


def test_request_from_a_file_and_from_standard_input(tmp_path, objects):
    """The body is read as the gateway reads it; --model goes before the one in it."""
    body = '{"stream": true, "model": "chat", "seed": 1}'
    file = tmp_path / "request.json"
    file.write_text(body)
    by_file = run("-f", str(file), "--objects", objects, "-o", "json")
    by_input = run("-f", "-", "--objects", objects, "-o", "json", stdin=body)
    assert by_file.stdout == by_input.stdout
    target = json.loads(by_file.stdout)["targets"][0]
    assert target["body"].startswith('{"stream": true, "model": "Qwen/Qwen3-8B", "seed": 1')
    assert '"include_usage":true' in target["body"]
    assert run("-f", str(file), "--objects", objects, "--model", "other").exit_code == 1


def test_objects_of_a_server(headgate, objects):
    """What the server has counts, in the namespace that is asked for."""
    with open(objects) as file:
        headgate("apply", "-f", "-", stdin=file.read())
    arguments = ["--kubeconfig", str(headgate.kubeconfig), "-n", headgate.namespace, "--model", "chat"]
    result = run(*arguments)
    assert f"  > ModelRoute {headgate.namespace}/chat, of 20" in result.stdout
    assert "no ready endpoint" in result.stdout
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "pass its body with -f, or use --model"),
        (["--model", "m", "--objects", "x", "--gateway", "y"], "cannot be combined"),
        (["--model", "m", "--path", "v1"], "a path such as"),
        (["--model", "m", "--objects", ".", "-H", "nothing"], "must be NAME=VALUE"),
        (["--model", "m", "-f", "missing.json"], "missing.json: No such file"),
        (["--model", "m", "--objects", "missing.yaml"], "missing.yaml"),
        (["--model", "m", "--gateway", "127.0.0.1:1"], "no response from the gateway at http://127.0.0.1:1"),
    ],
)
def test_mistakes_of_the_command_line(arguments, told):
    """They say what is needed."""
    result = run(*arguments)
    assert result.exit_code in (1, 2)
    assert told in result.output


def test_text_of_other_alphabets_stays_readable(tmp_path):
    """Headers are sent in UTF-8, as by curl on such a terminal; what is not printable is escaped."""
    file = tmp_path / "route.yaml"
    condition = "modelMatch: {headers: {x-team: {exact: équipe}}}"
    file.write_text(
        "apiVersion: networking.volcano.sh/v1alpha1\nkind: ModelRoute\nmetadata: {name: chat}\nspec:\n"
        f"  modelName: modèle\n  rules: [{{name: r, {condition}, targetModels: [{{modelServerName: s}}]}}]\n"
    )
    said = ("--model", "modèle", "--objects", str(file))
    assert 'header x-team: "été" is not exactly "équipe"' in run(*said, "-H", "x-team=été").output
    assert "no rule fits" not in run(*said, "-H", "x-team=équipe").output


def test_object_of_a_wrong_type(tmp_path):
    """It is named with its file, line and field."""
    file = tmp_path / "route.yaml"
    file.write_text(OBJECTS.replace("weight: 90", "weight: many"))
    result = run("--model", "chat", "--objects", str(file))
    assert result.exit_code == 1
    assert "route.yaml:12: ModelRoute chat: Expected `int`" in result.output
    assert "rules[1].targetModels[0].weight" in result.output


def test_limits_stand_with_their_route(objects, tmp_path):
    """A prompt that is larger than the whole limit is refused before there is any gateway."""
    limited = tmp_path / "limited.yaml"
    limit = "  rateLimit: {inputTokensPerUnit: 100, outputTokensPerUnit: 500, unit: minute}\n"
    limited.write_text(OBJECTS + limit)
    passed = run("--model", "chat", "--objects", str(limited))
    assert passed.exit_code == 0
    assert (
        "      limit: 100 input tokens per minute\n      limit: 500 output tokens per minute\n"
        in passed.output
    )
    body = json.dumps({"model": "chat", "prompt": "x" * 500})
    refused = run("-f", "-", "--path", "/v1/completions", "--objects", str(limited), stdin=body)
    assert refused.exit_code == 1
    assert "HTTP 429 Too Many Requests" in refused.output
    assert "it can never pass" in refused.output


POOLS = """
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: pool, annotations: {headgate.dev/models: "*"}}
spec: {selector: {matchLabels: {app: pool}}, targetPorts: [{number: 8000}, {number: 8001}]}
---
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: InferenceModel
metadata: {name: chat}
spec:
  modelName: chat
  criticality: Critical
  targetModels: [{name: v1, weight: 1}, {name: v2, weight: 0}]
  poolRef: {name: pool, group: inference.networking.k8s.io}
---
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceObjective
metadata: {name: batch}
spec: {priority: -5, poolRef: {name: pool}}
---
apiVersion: v1
kind: Pod
metadata: {name: one, labels: {app: pool}}
status: {podIP: 127.0.0.2, conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: two, labels: {app: pool}}
status: {podIP: 127.0.0.3}
"""


def test_the_way_to_an_inference_pool_is_explained(tmp_path):
    """Its InferenceModel, the model that is asked for, the priority, each port of a Pod, absent Pods."""
    file = tmp_path / "pools.yaml"
    file.write_text(POOLS)
    result = run("--objects", str(file), "--model", "chat")
    assert result.exit_code == 0
    for told in (
        "  > InferenceModel default/chat: the oldest for this name",
        "  > InferencePool default/pool as v1  weight 1, 100%",
        'model "chat" becomes "v1", and "chat" again in the response',
        "priority 1",
        "default/one-rank-0  127.0.0.2:8000",
        "default/one-rank-1  127.0.0.2:8001",
        "default/two: is not ready",
    ):
        assert told in result.stdout
    batch = run("--objects", str(file), "--model", "chat", "-H", "x-llm-d-inference-objective=batch")
    assert "priority -5" in batch.stdout
    unknown = run("--objects", str(file), "--model", "whatever")
    assert "> InferencePool default/pool: serves all names without a route of their own" in unknown.stdout
