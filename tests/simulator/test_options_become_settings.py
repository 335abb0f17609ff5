import json
import random

import pytest
from click.testing import CliRunner

from headgate.cli.simulate import simulate
from headgate.simulator import server
from headgate.simulator.model import Engine, RequestId, SimulatedRequest
from headgate.simulator.server.schema import value_of


@pytest.fixture
def settings(monkeypatch):
    """What a command line comes to, or what it is told."""

    def make(*words, **environment):
        made = []

        def run(served, on_listening):
            for each in served:
                each.sock.close()
                made.append(each.settings)

        monkeypatch.setattr(server, "run", run)
        result = CliRunner().invoke(simulate, ["engine", "--port", "0", *words], env=environment)
        return made[0] if made else result.output

    return make


@pytest.fixture
def written(tmp_path):
    """Writes a file and gives its path."""

    def write(text):
        file = tmp_path / "engine.yaml"
        file.write_text(text)
        return str(file)

    return write


def test_a_file_has_options(settings, written):
    """By their names; lists for those that may be repeated, and JSON written out."""
    file = written(
        "model: [tiny, alias]\nprofile: fast\nmax-num-seqs: 7\n"
        "enable-prefix-caching: false\n"
        "self-signed-certs: true\n"
        "lora-modules: [{name: sql, path: /sql}]\n"
        "kv-events-config: {endpoint: 'tcp://*:0'}\n"
        "fake-metrics: {waiting: 'ramp:0:50:60'}\n"
        "answer_lengths: sampled\n"
    )
    made = settings("--config", file)
    assert made.models == ("tiny", "alias")
    assert (made.engine.max_num_seqs, made.engine.prefix_cache) == (7, False)
    assert made.self_signed_certs
    assert made.lora_modules[0].name == "sql"
    assert made.kv_events.endpoint == "tcp://*:0"
    assert made.failures.fake_metrics.waiting == "ramp:0:50:60"
    assert made.answer_lengths == "sampled"


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(settings, written):
    """And a default comes last."""
    file = written("model: file\nseed: 3\npod-name: file\nprofile: fast\n")
    made = settings("--config", file, "--seed", "4", POD_NAME="environment", SIM_MODEL="environment")
    assert (made.models, made.seed, made.pod_name) == (("environment",), 4, "environment")
    assert made.mode == "random"


def test_every_mistake_of_a_file_is_told(settings, written):
    """With what may have been meant."""
    told = settings("--config", written("max-num-seq: 7\ncolour: red\n"))
    assert "max-num-seq is no option; did you mean max-num-seqs?" in told
    assert "colour is no option" in told
    assert "no mapping of options" in settings("--config", written("- a"))
    assert "is not YAML" in settings("--config", written("a: ["))
    assert "'lots' is not a valid integer" in settings("--config", written("max-num-seqs: lots\n"))


def test_options_of_vllm_that_change_nothing_are_accepted(settings):
    """So its command lines need not be edited."""
    words = ("--tensor-parallel-size", "8", "--enforce-eager", "--ec-transfer-config", "{}")
    made = settings("--profile", "fast", "--served-model-name", "tiny", *words, "--mm-processor-kwargs", "{}")
    assert made.models == ("tiny",)


def test_sizes_of_bodies_are_in_mebibytes(settings):
    """The largest that may be said is 512."""
    assert settings("--profile", "fast", "--max-request-body-size-mb", "2").max_body_bytes == 2 * 1024 * 1024
    assert "not in the range" in settings("--max-request-body-size-mb", "513")


def test_figures_that_are_none_are_refused(settings):
    """--fake-metrics is checked as /admin/config is."""
    assert "--fake-metrics: " in settings("--fake-metrics", '{"waiting": "soon"}')
    assert "--fake-metrics: " in settings("--fake-metrics", "{")


def test_values_are_made_up_within_what_is_said(settings):
    """Where the schema says nothing else."""
    made = settings(
        *("--profile", "fast", "--min-tool-call-integer-param", "5", "--max-tool-call-integer-param", "6"),
        *("--min-tool-call-number-param", "-2", "--max-tool-call-number-param", "-1"),
        *("--min-tool-call-array-param-length", "7", "--max-tool-call-array-param-length", "8"),
        *("--tool-call-not-required-param-probability", "100"),
        *("--object-tool-call-not-required-field-probability", "0"),
        *("--tool-call-extra-call-probability", "0"),
    ).made_up
    assert made.further_call_share == 0
    schema = {
        "type": "object",
        "properties": {
            "whole": {"type": "array", "items": {"type": "integer"}},
            "real": {"type": "number"},
            "own": {"type": "integer", "minimum": 50, "maximum": 50},
            "within": {"type": "object", "properties": {"optional": {"type": "integer"}}},
        },
    }
    for seed in range(20):
        value = value_of(schema, random.Random(seed), made)
        assert set(value) == {"whole", "real", "own", "within"}
        assert 7 <= len(value["whole"]) <= 8
        assert set(value["whole"]) <= {5, 6}
        assert -2 <= value["real"] <= -1
        assert (value["own"], value["within"]) == (50, {})


def test_bounds_that_cross_are_refused(settings):
    """All of them at once."""
    told = " ".join(
        settings("--min-tool-call-integer-param", "200", "--min-tool-call-array-param-length", "9").split()
    )
    assert "made_up.least_integer: must not be more than most_integer, got 200 and 100" in told
    assert "made_up.least_items: must not be more than most_items, got 9 and 5" in told


async def test_how_often_tools_are_called_can_be_said(serve):
    """Never twice, or as often as may be."""
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    counts = []
    for share in (0.0, 1.0):
        async with serve(made_up=server.MadeUp(further_call_share=share)) as engine:
            body = {
                "model": "tiny",
                "messages": [{"role": "user", "content": "Look."}],
                "tools": [tool],
                "tool_choice": "required",
            }
            answer = (await engine.client.post("/v1/chat/completions", json=body)).json()
            counts.append(len(answer["choices"][0]["message"]["tool_calls"]))
    assert counts == [1, 8]
    assert json.loads(answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"]) == {}


def times(config, requests=1, prompt_tokens=100):
    """Seconds to the first token, and between the next two, of one of some requests."""
    engine = Engine(config)
    told = []
    for number in range(requests):
        request = SimulatedRequest(
            request_id=RequestId(str(number)), prompt_tokens=prompt_tokens, output_tokens=50
        )
        engine.submit(request, 0.0)
    while (outcome := engine.step(0.0)) is not None:
        told += [each.gap_s for each in outcome.emitted if each.request_id == "0"]
        first = told[0] if told else 0.0
        if len(told) > 1 and engine.statistics().waiting == 0:
            return first, outcome.duration_s
    return first, 0.0


def test_latencies_can_be_said_as_such(settings):
    """Of a lone request, and of one beside as many as can run; a number alone is milliseconds."""
    words = ("--time-to-first-token", "200", "--inter-token-latency", "20ms", "--max-num-seqs", "5")
    config = settings(*words, "--time-factor-under-load", "3").engine
    assert times(config) == pytest.approx((0.2, 0.02))
    assert times(config, prompt_tokens=5)[0] == pytest.approx(0.2)
    assert times(config, requests=5)[1] == pytest.approx(0.06)
    per_token = ("--prefill-overhead", "30ms", "--prefill-time-per-token", "250us")
    assert times(settings(*per_token).engine)[0] == pytest.approx(0.03 + 100 * 250e-6)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--time-to-first-token", "soon"], "'soon' is not a time such as 200ms or 1.5s"),
        (
            ["--time-to-first-token", "1", "--inter-token-latency", "20"],
            "must be at least the time of a step",
        ),
        (["--time-factor-under-load", "2"], "needs --inter-token-latency too"),
        (["--time-to-first-token", "90", "--prefill-overhead", "9"], "leave it out where prefill has"),
    ],
)
def test_latencies_that_cannot_be_are_refused(settings, words, told):
    """With what would do."""
    assert told in " ".join(settings(*words).split())


def test_the_seed_of_hashes_is_pythons(settings):
    """The variable by which vLLM has it; the option goes before it."""
    assert settings(PYTHONHASHSEED="7").hash_seed == "7"
    assert settings("--hash-seed", "8", "--no-mm-encoder-only", PYTHONHASHSEED="7").hash_seed == "8"
