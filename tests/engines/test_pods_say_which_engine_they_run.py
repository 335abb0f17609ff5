"""A Pod's own label says which engine it runs; without one its pool says it."""

import pytest

from headgate import engines


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("vLLM", "vLLM"),
        ("vllm", "vLLM"),
        ("SGLang", "SGLang"),
        ("sglang", "SGLang"),
        ("trtllm-serve", "TensorRT-LLM"),
    ],
)
def test_engines_are_known_by_name_in_any_case(name, engine):
    """Objects and labels of several projects spell them differently."""
    assert engines.named(name).name == engine


def test_an_unknown_engine_is_any_openai_server():
    """Nothing is read of it but its models."""
    engine = engines.named("my-own-server")
    assert engine.name == "OpenAI"
    assert engine.metrics is None


@pytest.mark.parametrize(
    "labels",
    [
        {"llm-d.ai/engine-type": "sglang"},
        {"inference.networking.k8s.io/engine-type": "sglang"},
        {"llm-d.ai/engine-type": "sglang", "inference.networking.k8s.io/engine-type": "vllm"},
        {"llm-d.ai/engine-type": "", "inference.networking.k8s.io/engine-type": "sglang"},
    ],
)
def test_the_label_of_a_pod_goes_before_its_pool(labels):
    """The newer label counts before the older one."""
    assert engines.of_pod(labels, "vLLM").name == "SGLang"


def test_a_pod_without_label_runs_what_its_pool_says():
    """That is the ModelServer's inferenceEngine."""
    assert engines.of_pod({"app": "llama"}, "SGLang").name == "SGLang"
