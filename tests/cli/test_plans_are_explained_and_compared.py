"""`headgate plan explain` and `what-if`, for a description and for the objects of a server."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headgate.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "planning" / "system.json"


def run(*arguments: str, given: str | None = None):
    return CliRunner().invoke(main, ["plan", *arguments], input=given, catch_exceptions=False)


def test_a_plan_is_explained() -> None:
    """Demand, objectives, what limits each server, one replica less, and the next best plan."""
    done = run("explain", str(EXAMPLE))
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "llama-8b, class Premium (priority 1)"
    assert "  demand: 1900 requests per minute, 256 tokens in and 256 out" in lines
    assert "  objectives: p95 TTFT 500 ms, ITL 24 ms" in lines
    assert "  chat-l40s:default: 1 replica of L40S for 11.1% of the requests, 1 more than now" in lines
    assert any(line.startswith("    one less: saves 120 cents per hour: p95 TTFT ") for line in lines)
    assert "  next best: 2 H100 (chat-h100:default), 280 cents per hour more" in lines
    assert "  next best: nothing else serves as much" in lines


def test_an_explanation_is_printed_as_json() -> None:
    """With the figures of the text."""
    found = json.loads(run("explain", str(EXAMPLE), "-o", "json").stdout)
    chat = found["demands"][0]
    assert (chat["model"], chat["load"]["arrivalRate"]) == ("llama-8b", 1900)
    assert (chat["percentile"], chat["cost"]) == (95, 520)
    assert [each["binding"] for each in chat["servers"]] == ["ttft", "ttft"]
    assert chat["runnerUp"]["costDiff"] == 280
    assert found["problems"] == {}


def test_the_demand_may_be_another_one() -> None:
    """Also for the explanation of one plan."""
    done = run("explain", str(EXAMPLE), "--demand", "chat=60,128,64")
    assert "  demand: 60 requests per minute, 128 tokens in and 64 out" in done.stdout


def test_replicas_that_go_are_named() -> None:
    """Without a load, there is no other plan to compare with."""
    chat = run("explain", str(EXAMPLE), "--demand", "chat=60,128,64").stdout.partition("\n\n")[0]
    assert "  chat-h100:default: no replicas, 1 of H100 now" in chat
    none = run("explain", str(EXAMPLE), "--demand", "chat=0").stdout.partition("\n\n")[0]
    assert "  no replicas: there is no load" in none
    assert "next best" not in none


def test_what_is_not_served_is_explained() -> None:
    """In whole and in part."""
    document = json.loads(EXAMPLE.read_text())
    document["system"]["capacityData"]["count"] = [{"type": "L40S", "count": 2}, {"type": "H100", "count": 1}]
    done = run("explain", "-", given=json.dumps(document))
    assert "  not served: not enough accelerators; it could run on H100" in done.stdout
    assert "of the requests are served: there are too few accelerators" in done.stdout


def test_two_plans_are_compared() -> None:
    """Side by side, with the costs of both."""
    done = run("what-if", str(EXAMPLE), "--slo-ttft", "Premium=300")
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["SERVER", "CLASS", "MODEL", "BEFORE", "AFTER", "COST", "TTFT", "ITL"]
    assert "chat-h100:default  Premium  llama-8b   1 H100  2 H100" in lines[2]
    assert "400 -> 800" in lines[2]
    assert "2 H100, 33.2% served" in lines[4]
    assert lines[-1] == "Cost: 4080 cents per hour before, 4360 after: 280 more."


@pytest.mark.parametrize(
    ("options", "cost"),
    [
        (["--slo-itl", "llama-8b=20"], 4360),
        (["--slo-percentile", "50"], 3960),
        (["--price", "H100=800"], 7680),
        (["--capacity", "L40S=3"], 4120),
        (["--demand", "reports:default=x0"], 2480),
        (["--demand", "chat=x2", "--demand", "batch:default=x0"], 4240),
    ],
)
def test_anything_may_change(options, cost) -> None:
    """Objectives, prices, accelerators and demands."""
    found = json.loads(run("what-if", str(EXAMPLE), *options, "-o", "json").stdout)
    assert found["before"]["cost"] == 4080
    assert found["after"]["cost"] == pytest.approx(cost)
    assert all(each["costDiff"] for each in found["differences"].values())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ([], "nothing would change; give an option such as --slo-ttft 300"),
        (
            ["--slo-ttft", "Gold=3"],
            "there is no class or model with targets Gold; there are Premium/llama-8b",
        ),
        (["--price", "H100"], "H100 names no accelerator; write it as in L40S=100"),
        (["--demand", "m=1"], "there is no server, demand or model m; there are llama-70b, llama-8b"),
        (["--slo-percentile", "100"], "100 is not a percentage from 1 to 99.99"),
    ],
)
def test_changes_of_nothing_are_refused(options, told) -> None:
    """With what is possible."""
    done = run("what-if", str(EXAMPLE), *options)
    assert done.exit_code != 0
    assert told in done.stderr


OBJECTS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: accelerator-unit-costs}
data:
  A100: '{"device": "NVIDIA-A100-PCIE-80GB", "cost": "40.00"}'
  L40S: '{"device": "NVIDIA-L40S", "cost": 32}'
---
apiVersion: v1
kind: ConfigMap
metadata: {name: service-classes-config}
data:
  premium.yaml: |
    name: Premium
    priority: 1
    data:
    - {model: meta/llama-3.1-8b, slo-tpot: 24, slo-ttft: 500}
"""
VARIANT = """
---
apiVersion: llmd.ai/v1alpha1
kind: VariantAutoscaling
metadata: {{name: {name}}}
spec:
  modelID: meta/llama-3.1-8b
  variantID: meta/llama-3.1-8b-{accelerator}-1
  accelerator: {accelerator}
  acceleratorCount: 1
  sloClassRef: {{name: service-classes-config, key: premium.yaml}}
  variantProfile:
    perfParms:
      decodeParms: {{alpha: "20.58", beta: "0.41"}}
      prefillParms: {{gamma: "20.58", delta: "0.041"}}
    maxBatchSize: 4
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{containers: [{{name: engine, image: engine}}]}}
"""


@pytest.fixture
def planned(headgate) -> Any:
    """Two variants of one model, one of them on an accelerator whose cost is written wrongly."""
    manifests = OBJECTS + "".join(
        VARIANT.format(name=name, accelerator=accelerator)
        for name, accelerator in (("chat-a100", "A100"), ("chat-l40s", "L40S"))
    )
    headgate("apply", "-f", "-", stdin=manifests)

    def invoke(command: str, *arguments: str):
        server = ["--kubeconfig", str(headgate.kubeconfig), "-n", headgate.namespace]
        return run(command, *server, "--planning-namespace", headgate.namespace, *arguments)

    return invoke


def test_objects_of_a_server_are_explained(planned, headgate) -> None:
    """For the load that is given, with the problems of each object."""
    done = planned("explain", "--demand", "meta/llama-3.1-8b=120,100,128")
    assert done.exit_code == 0, done.output
    name = f"chat-a100:{headgate.namespace}"
    assert done.stdout.startswith(
        "meta/llama-3.1-8b, class Premium (priority 1)\n  demand: 120 requests per minute"
    )
    assert f"  {name}: 4 replicas of A100, 2 more than now\n" in done.stdout
    told = (
        f"{headgate.namespace}/chat-l40s: ConfigMap {headgate.namespace}/accelerator-unit-costs, key L40S, "
    )
    assert told in done.stdout
    assert 'cost: 32 is not text with a number of cents per hour; write "cost": "32"' in done.stdout


def test_objects_without_a_load_are_listed(planned, headgate) -> None:
    """With what runs, and how to give a load."""
    done = planned("explain")
    assert done.exit_code == 0, done.output
    assert "--demand" in done.stdout
    assert f"{headgate.namespace}/chat-a100: 2 replicas now, nothing is decided\n" in done.stdout


def test_plans_for_objects_of_a_server_are_compared(planned) -> None:
    """The first load of a model is that of both plans."""
    first = ["--demand", "meta/llama-3.1-8b=120,100,128"]
    done = planned("what-if", *first, "--demand", "meta/llama-3.1-8b=x2")
    assert done.exit_code == 0, done.output
    assert "4 A100  8 A100" in done.stdout
    assert "Cost: 160 cents per hour before, 320 after: 160 more." in done.stdout
    assert planned("what-if", *first).exit_code == 2


@pytest.mark.parametrize(
    ("demand", "told"),
    [
        ("meta/llama-3.1-8b=120", "are needed, as in meta/llama-3.1-8b=600,512,256"),
        ("other=120,1,1", "no VariantAutoscaling has the model other; the models are: meta/llama-3.1-8b"),
    ],
)  # fmt: skip
def test_loads_of_objects_are_complete(planned, demand, told) -> None:
    """And of a model that there is."""
    done = planned("explain", "--demand", demand)
    assert done.exit_code == 1
    assert told in done.stderr


@pytest.fixture
def noted(planned, headgate) -> Any:
    """The same objects, with what the controller has planned for."""
    load = '{"requestsPerMinute": 120, "promptTokens": 100, "outputTokens": 128}'
    for name in ("chat-a100", "chat-l40s"):
        annotate(headgate, name, **{"headgate.dev/planned-load": load})
    return planned


def annotate(headgate, name: str, **annotations: str) -> None:
    accelerator = {"chat-a100": "A100", "chat-l40s": "L40S"}[name]
    manifest = VARIANT.format(name=name, accelerator=accelerator).replace(
        f"{{name: {name}}}", json.dumps({"name": name, "annotations": annotations}), 1
    )
    headgate("apply", "-f", "-", stdin=manifest)


def test_a_plan_of_the_controller_is_explained_without_a_demand(noted) -> None:
    """For the load that it has planned for."""
    done = noted("explain")
    assert done.exit_code == 0, done.output
    assert "  demand: 120 requests per minute, 100 tokens in and 128 out\n" in done.stdout
    assert ": 4 replicas of A100, 2 more than now\n" in done.stdout
    other = noted("explain", "--demand", "meta/llama-3.1-8b=60")
    assert "  demand: 60 requests per minute, 100 tokens in and 128 out\n" in other.stdout


def test_plans_for_planned_loads_are_compared(noted) -> None:
    """Each demand is that of the other plan."""
    for demand in ("meta/llama-3.1-8b=x2", "meta/llama-3.1-8b=240,100,128", "240"):
        done = noted("what-if", "--demand", demand)
        assert done.exit_code == 0, done.output
        assert "4 A100  8 A100" in done.stdout
    assert noted("what-if").exit_code == 2


def test_a_note_that_cannot_be_read_is_none(planned, headgate) -> None:
    """The load is then to be given."""
    annotate(headgate, "chat-a100", **{"headgate.dev/planned-load": '{"requestsPerMinute": "many"}'})
    assert f"{headgate.namespace}/chat-a100: 2 replicas now" in planned("explain").stdout


def test_a_learned_profile_is_shown_beside_that_of_the_spec(planned, headgate) -> None:
    """It is planned with, unless it stands for another spec."""
    load = '{"requestsPerMinute": 120, "promptTokens": 100, "outputTokens": 128}'
    spec = {"alpha": 20.58, "beta": 0.41, "gamma": 20.58, "delta": 0.041}
    learned = {"alpha": 12.5, "beta": 0.3, "gamma": 15.0, "delta": 0.02, "observations": 40, "spec": spec}
    notes = {"headgate.dev/planned-load": load, "headgate.dev/learned-profile": json.dumps(learned)}
    annotate(headgate, "chat-a100", **notes)
    done = planned("explain")
    assert (
        "    profile: alpha 12.5, beta 0.3, gamma 15, delta 0.02, learned from 40 observations\n"
        "    profile of the spec: alpha 20.58, beta 0.41, gamma 20.58, delta 0.041\n"
    ) in done.stdout
    found = json.loads(planned("explain", "-o", "json").stdout)
    assert found["learned"][f"chat-a100:{headgate.namespace}"]["observations"] == 40
    notes["headgate.dev/learned-profile"] = json.dumps({**learned, "spec": {**spec, "alpha": 19.0}})
    annotate(headgate, "chat-a100", **notes)
    assert "    profile: alpha 20.58, beta 0.41, gamma 20.58, delta 0.041\n" in planned("explain").stdout


def test_a_server_without_objects_is_no_plan(headgate) -> None:
    """A file may be one."""
    done = run("explain", "--kubeconfig", str(headgate.kubeconfig), "-n", headgate.namespace)
    assert done.exit_code == 1
    assert "there are no VariantAutoscalings in this namespace" in done.stderr
