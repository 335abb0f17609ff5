"""The main job: one command from manifests to answers that ordinary clients understand."""

import json
import subprocess

import openai
import pytest

pytestmark = pytest.mark.whole


@pytest.fixture
def sdk(machine) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{machine.url}/v1", api_key="none", max_retries=0)


def test_it_prints_the_api_a_curl_line_and_the_kubeconfig(machine):
    """The last lines tell a newcomer all that is needed to go on."""
    assert f"{machine.url}/v1" in machine.output
    assert f"curl -N {machine.url}/v1/chat/completions" in machine.output
    assert str(machine.state / "kubeconfig") in machine.output


def test_plain_lines_show_the_progress_where_there_is_no_terminal(machine):
    """Each step of the start is a line of its own, without control characters."""
    assert "\x1b" not in machine.output
    for step in ("API server:", "objects: 3 applied", "workloads: 2 of 2 Pods available", "models: sim-8b"):
        assert step in machine.output


def test_the_printed_curl_line_streams_an_answer(machine):
    """The line works as it is printed, in a shell."""
    line = next(line.split("Ask:")[1] for line in machine.output.splitlines() if "Ask:" in line)
    answer = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=100).stdout
    events = [event for event in answer.split("\n\n") if event]
    assert events[-1] == "data: [DONE]"
    assert json.loads(events[0].removeprefix("data: "))["choices"][0]["delta"]["role"] == "assistant"


def test_the_openai_sdk_gets_a_completion(machine, sdk):
    """Chat completions work unchanged, with usage."""
    answer = sdk.chat.completions.create(
        model="sim-8b", max_tokens=8, messages=[{"role": "user", "content": "Hello"}]
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 8


def test_the_openai_sdk_gets_a_stream(machine, sdk):
    """Streams arrive event by event, with the usage that was asked for."""
    stream = sdk.chat.completions.create(
        model="sim-8b",
        max_tokens=8,
        messages=[{"role": "user", "content": "Hello"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert len(text.split()) >= 8
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 8


def test_the_openai_sdk_lists_models_and_understands_errors(machine, sdk):
    """The model list names the route's model; an unknown model is the SDK's own NotFoundError."""
    assert [model.id for model in sdk.models.list()] == ["sim-8b"]
    with pytest.raises(openai.NotFoundError) as refused:
        sdk.chat.completions.create(model="none", messages=[{"role": "user", "content": "Hello"}])
    assert refused.value.code == "model_not_found"


def test_kubectl_shows_the_objects(machine):
    """A user of Kubernetes finds Pods, ModelServers and ModelRoutes where they always are."""
    shown = machine.kubectl("get", "pods,modelservers,modelroutes")
    assert shown.count("Running") == 2
    assert "modelserver.networking.volcano.sh/sim-8b" in shown
    assert "modelroute.networking.volcano.sh/sim-8b" in shown


def test_kubectl_logs_shows_the_output_of_an_engine(machine):
    """Logs are where a user of Kubernetes looks for them."""
    assert "8000" in machine.kubectl("logs", "deployment/sim-8b")


def test_metrics_and_access_log_tell_of_each_request(machine, eventually):
    """One request is one count and one line."""
    answer = machine.ask()
    request_id = answer.headers["x-request-id"]
    log = machine.state / "logs" / "gateway.log"
    eventually(lambda: request_id in log.read_text())
    (line,) = [line for line in log.read_text().splitlines() if request_id in line]
    assert "200 outcome=served model=sim-8b route=default/sim-8b" in line
    assert "endpoint=default/sim-8b-" in line
    assert (
        'headgate_gateway_requests_total{code="200",model="sim-8b"'
        in machine.get("/metrics", "metrics-port").text
    )
