"""Adapters are loaded at the start of an engine, by a sidecar while it runs, or never."""

import pytest

ADAPTERS = [
    {"name": "law", "artifactURL": "hf://org/law"},
    {"name": "art", "artifactURL": "pvc://adapters/art"},
]
OPENED = [{"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "1"}]


def engine(children):
    return children.children[0].manifest["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize("fields", [{"env": OPENED}, {"type": "SGLang"}], ids=["vLLM", "SGLang"])
def test_an_open_engine_gets_them_while_it_runs(made, backend, fields):
    """Another list changes nothing of its Pods but where claims are mounted."""
    children = made(backend(loraAdapters=ADAPTERS, **fields))
    sidecar = children.sidecars["b"]
    assert sidecar.port == 8100
    assert [tuple(adapter) for adapter in sidecar.adapters] == [
        ("law", "hf://org/law", ""),
        ("art", "pvc://adapters/art", "/adapters/art"),
    ]
    fewer = made(backend(loraAdapters=ADAPTERS[1:], **fields))
    assert fewer.children[0] == children.children[0]


def test_an_engine_whose_api_is_opened_is_ready_for_the_first(made, backend):
    """It comes without a rollout; SGLang pays for adapters only if there are any."""
    assert engine(made(backend(env=OPENED))) == engine(made(backend(env=OPENED, loraAdapters=ADAPTERS[:1])))
    assert "--enable-lora" not in engine(made(backend(type="SGLang")))["args"]


@pytest.mark.parametrize("kind", ["vLLM", "MindIE"])
def test_other_engines_get_none_later(made, backend, kind):
    """They have them from their start, or cannot have any."""
    assert made(backend(type=kind, loraAdapters=ADAPTERS)).sidecars["b"].adapters is None


def test_a_sidecar_may_have_another_port(made, backend):
    """The variable of Kthena sets it."""
    sidecar = made(backend(env=[{"name": "RUNTIME_PORT", "value": "9100"}])).sidecars["b"]
    assert sidecar.port == 9100
