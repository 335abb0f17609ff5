import statistics

import pytest
from click.testing import CliRunner

from headgate.cli.simulate import simulate
from headgate.simulator import server
from headgate.simulator.model import Engine, RequestId, SimulatedRequest, Submission, run_virtual


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
    )
    made = settings("--config", file)
    assert made.models == ("tiny", "alias")
    assert (made.engine.max_num_seqs, made.engine.prefix_cache) == (7, False)
    assert made.self_signed_certs
    assert made.lora_modules[0].name == "sql"
    assert made.kv_events.endpoint == "tcp://*:0"


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(settings, written):
    """And a default comes last."""
    file = written("model: file\nseed: 3\npod-name: file\nprofile: fast\n")
    made = settings("--config", file, "--seed", "4", POD_NAME="environment", SIM_MODEL="environment")
    assert (made.models, made.seed, made.pod_name) == (("environment",), 4, "environment")
    assert made.role == "both"


def test_every_mistake_of_a_file_is_told(settings, written):
    """With what may have been meant."""
    told = settings("--config", written("max-num-seq: 7\ncolour: red\n"))
    assert "max-num-seq is not an option; did you mean max-num-seqs?" in told
    assert "colour is not an option" in told
    assert "must be a mapping of options" in settings("--config", written("- a"))
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


def told(made):
    """The engine with the latencies that it was told."""
    return made.failures.latencies().apply(made.engine)


def test_latencies_can_be_said_as_such(settings):
    """Of a lone request, and of one beside as many as can run; a number alone is milliseconds."""
    words = ("--time-to-first-token", "200", "--inter-token-latency", "20ms", "--max-num-seqs", "5")
    config = told(settings(*words, "--time-factor-under-load", "3"))
    assert times(config) == pytest.approx((0.2, 0.02))
    assert times(config, prompt_tokens=5)[0] == pytest.approx(0.2)
    assert times(config, requests=5)[1] == pytest.approx(0.06)
    per_token = ("--prefill-overhead", "30ms", "--prefill-time-per-token", "250us")
    assert times(told(settings(*per_token)))[0] == pytest.approx(0.03 + 100 * 250e-6)
    lone, loaded = told(settings()), told(settings("--time-factor-under-load", "2"))
    assert times(loaded)[1] == pytest.approx(times(lone)[1], rel=0.01)
    assert times(loaded, requests=256, prompt_tokens=1)[1] == pytest.approx(2 * times(lone)[1], rel=0.01)


@pytest.mark.parametrize(
    ("calculator", "first_s"), [([], 0.2), (["constant"], 0.2), (["per-token"], 0.03 + 100 * 250e-6)]
)
def test_a_constant_time_goes_before_one_per_token(settings, calculator, first_s):
    """Unless it is said which counts."""
    both = (
        *("--time-to-first-token", "200ms"),
        *("--prefill-overhead", "30ms", "--prefill-time-per-token", "250us"),
    )
    words = ["--latency-calculator", *calculator] if calculator else []
    assert times(told(settings(*both, *words)))[0] == pytest.approx(first_s)


def test_latencies_deviate_as_they_are_told(settings):
    """Each by its own, within 0.3 to 1.7 times; the same in every run."""
    words = ("--time-to-first-token", "100ms", "--inter-token-latency", "10ms")
    deviations = ("--time-to-first-token-std-dev", "30ms", "--inter-token-latency-std-dev", "1ms")
    config = told(settings(*words, *deviations))
    (first_s, between_s), again = [spread(config), spread(config)]
    assert (first_s, between_s) == again
    assert statistics.stdev(first_s) == pytest.approx(0.03, rel=0.3)
    assert 0.02 < min(first_s) < max(first_s) < 0.18
    assert statistics.stdev(between_s) == pytest.approx(0.001, rel=0.3)
    overhead = (
        "--prefill-overhead",
        "100ms",
        "--prefill-time-std-dev",
        "30ms",
        "--inter-token-latency",
        "1ms",
    )
    assert statistics.stdev(spread(told(settings(*overhead)))[0]) == pytest.approx(0.03, rel=0.3)


def spread(config):
    """Of two hundred requests, one after the other: times to the first token, and to the second."""
    engine, ends = Engine(config), []
    for number in range(200):
        request = SimulatedRequest(request_id=RequestId(str(number)), prompt_tokens=1, output_tokens=2)
        ends += run_virtual(engine, [Submission(0.0, request)]).finished
    return [end.ttft_s for end in ends], [end.tpot_s for end in ends]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--time-to-first-token", "soon"], "'soon' is not a time such as 200ms or 1.5s"),
        (
            ["--time-to-first-token", "1", "--inter-token-latency", "20"],
            "must be at least the time of a step",
        ),
        (
            ["--inter-token-latency", "20", "--inter-token-latency-std-dev", "7"],
            "inter-token-latency-std-dev: must be at most 30 % of what deviates, which is 0.02 s",
        ),
        (
            ["--kv-cache-transfer-latency-std-dev", "7"],
            "kv-cache-transfer-latency-std-dev: must be at most 30 % of kv-cache-transfer-latency",
        ),
    ],
)
def test_latencies_that_cannot_be_are_refused(settings, words, told):
    """With what would do."""
    assert told in " ".join(settings(*words).split())


def test_a_command_line_of_llm_d_inference_sim_is_taken(settings, written):
    """Its names, its lists with blanks between, and the sections of its file."""
    made = settings(
        *("--profile", "fast", "--model", "base", "--served-model-name", "one", "two"),
        *("--lora-modules", '{"name": "sql", "path": "/sql"}', '{"name": "law", "path": "/law"}'),
        *("--max-waiting-queue-length", "7", "--kv-cache-size", "5000", "--max-model-len", "1024"),
        *("--failure-types", "rate_limit", "server_error", "--startup-duration", "2m"),
        *("--enable-kvcache", "--zmq-endpoint", "tcp://127.0.0.1:5557", "--event-batch-size", "3"),
        *("--kv-events-replay-endpoint", "tcp://127.0.0.1:0", "--kv-events-replay-queue-size", "9"),
        *("--no-enable-sleep-mode", "--enable-request-id-headers", "--skip-tool-validation"),
        *("--kv-cache-transfer-time-per-token", "8us", "--kv-cache-transfer-time-std-dev", "1us"),
    )
    assert made.models == ("one", "two")
    assert [adapter.name for adapter in made.lora_modules] == ["sql", "law"]
    assert (made.engine.max_waiting, made.engine.kv_blocks) == (7, 5000)
    assert made.failures.failure_types == ("rate_limit", "server_error")
    assert made.startup_s == 120
    assert made.kv_events.connect
    assert (made.kv_events.form, made.kv_events.batch_events, made.kv_events.buffer_steps) == ("array", 3, 9)
    assert made.failures.transfer_s(1000) == pytest.approx((0.008, 1e-6))
    file = "latencies: {inter-token-latency: 20ms}\nkvcache: {kv-cache-size: 4000}\nmax-model-len: 1024\n"
    made = settings("--profile", "fast", "--config", written(file))
    assert made.engine.kv_blocks == 4000
    assert made.failures.latencies().inter_token_latency == 0.02


def test_an_engine_listens_where_the_host_is_left_open(settings):
    """Of llm-d-inference-sim's option."""
    made = settings("--profile", "fast", "--enable-kvcache", "--zmq-endpoint", "tcp://*:0")
    assert not made.kv_events.connect


def test_events_are_configured_in_one_way(settings):
    """vLLM's or llm-d-inference-sim's."""
    words = ("--enable-kvcache", "--kv-events-config", "{}")
    assert "--enable-kvcache cannot be combined with --kv-events-config" in settings(*words)


def test_the_seed_of_hashes_is_pythons(settings):
    """The variable by which vLLM has it; the option goes before it."""
    assert settings(PYTHONHASHSEED="7").hash_seed == "7"
    assert settings("--hash-seed", "8", "--no-mm-encoder-only", PYTHONHASHSEED="7").hash_seed == "8"
