"""A Model with a real vLLM: weights and an adapter come from a hub, and requests get the engine's answers."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from loopback_hub import Repository, running_hub

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "examples" / "images" / "own-vllm.yaml"
MAKER = ROOT / "tests" / "engines" / "tiny_model.py"
START_S = 900.0
"""vLLM takes a minute on a machine that has nothing else to do, and several on a busy one."""
EXAMPLE = ROOT / "examples" / "models" / "own-vllm-cpu.yaml"
CONFIG = {
    "enable-prefix-caching": False,
    "limit-mm-per-prompt": {"image": 0},
    "max-lora-rank": 8,
    "max-loras": 2,
    "generation-config": "vllm",
}
"""Besides the flags of the example."""
LONG = 900
"""Tokens of a response that takes seconds."""

pytestmark = [pytest.mark.engine, pytest.mark.whole, pytest.mark.timeout(1800)]


@pytest.fixture
def hub():
    with running_hub() as hub:
        yield hub


@pytest.fixture(scope="session")
def tiny(engine_python, tmp_path_factory):
    """The directory of a tiny model, and in it the adapter's."""
    directory = tmp_path_factory.mktemp("tiny")
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    subprocess.run([engine_python, MAKER, directory], check=True, env=environment, timeout=START_S)
    return directory


def files(directory):
    """Of a repository."""
    return {file.name: file.read_bytes() for file in directory.iterdir() if file.is_file()}


@pytest.fixture
def served(new_machine, engine_python, hub, tiny, tmp_path, monkeypatch, eventually):
    """`headgate up`, whose vLLM is that of the tests, and a hub that has the weights and an adapter."""
    hub.repositories["org/tiny"] = Repository(files(tiny))
    hub.repositories["org/nonsense"] = Repository(files(tiny / "adapter"))
    monkeypatch.setenv("OWN_VLLM", engine_python)
    nothing = tmp_path / "nothing.yaml"
    nothing.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: nothing, namespace: default}}")
    machine = new_machine(nothing).start(flags=("--images", str(IMAGES)))
    return Served(machine, hub, tmp_path / "cache", eventually)


@dataclass
class Served:
    """The Model `tiny` on a machine."""

    machine: Any
    hub: Any
    cache: Path
    eventually: Any

    def apply(self, *adapters, **variables):
        """With these adapters, all with the same weights."""
        manifest = yaml.safe_load(EXAMPLE.read_text())
        manifest["metadata"]["name"] = "tiny"
        (backend,) = manifest["spec"]["backends"]
        backend |= {
            "modelURI": "hf://org/tiny",
            "cacheURI": f"hostpath://{self.cache}",
            "loraAdapters": [{"name": name, "artifactURL": "hf://org/nonsense"} for name in adapters],
        }
        variables["HF_ENDPOINT"] = self.hub.url
        backend["env"] += [{"name": name, "value": value} for name, value in variables.items()]
        backend["workers"][0]["config"] |= CONFIG
        self.machine.kubectl("apply", "-f", "-", text=json.dumps(manifest))

    def ask(self, model="tiny", tokens=12):
        body = {"model": model, "prompt": "Objects of a Model", "max_tokens": tokens, "ignore_eos": True}
        return httpx2.post(
            f"{self.machine.url}/v1/completions",
            json={**body, "temperature": 0},
            timeout=START_S,
            trust_env=False,
        )

    def text(self, model="tiny"):
        """Of a response; "" if there is none yet."""
        response = self.ask(model)
        return response.json()["choices"][0]["text"] if response.status_code == 200 else ""

    def until_answered(self, model="tiny"):
        self.eventually(lambda: self.text(model), START_S)

    def pods(self):
        """Names of those that are not being deleted."""
        found = json.loads(self.machine.kubectl("get", "pods", "-o", "json"))["items"]
        return [each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"]]

    def conditions(self):
        """Types of conditions that are True."""
        status = json.loads(self.machine.kubectl("get", "model", "tiny", "-o", "json"))["status"]
        return {each["type"] for each in status["conditions"] if each["status"] == "True"}


def test_weights_and_adapter_come_from_a_hub(served):
    """They are downloaded once and loaded at the start of the engine, whose page is read as it is meant."""
    served.apply("nonsense")
    served.until_answered()
    plain = served.text()
    assert served.text() == plain
    assert served.text("nonsense") not in ("", plain)
    served.eventually(lambda: "Active" in served.conditions())
    reads = [
        path for path, _ in served.hub.requests if path.endswith("/resolve/" + "c" * 40 + "/config.json")
    ]
    assert len(reads) == 1
    (endpoint,) = served.machine.get("/debug/endpoints", "admin-port").json()["default/tiny-cpu"]
    assert endpoint["engine"] == "vLLM"
    reading = endpoint["reading"]
    assert (reading["block_tokens"], reading["models"]) == (32, ["nonsense", "tiny"])
    served.machine.kubectl("delete", "model", "tiny")
    served.eventually(
        lambda: not json.loads(served.machine.kubectl("get", "pods", "-o", "json"))["items"], 360
    )


def test_adapters_change_while_the_engine_runs(served):
    """By the sidecar, in the same Pod. A Pod that has to go finishes its response; the next one gets them."""
    served.apply("nonsense", VLLM_ALLOW_RUNTIME_LORA_UPDATING="True")
    served.until_answered("nonsense")
    pods = served.pods()
    served.apply("other", VLLM_ALLOW_RUNTIME_LORA_UPDATING="True")
    served.until_answered("other")
    served.eventually(lambda: served.ask("nonsense").status_code == 404)
    assert served.pods() == pods
    served.eventually(lambda: served.conditions() >= {"Active", "AdaptersLoaded"})
    assert served.text("other") != served.text()
    with ThreadPoolExecutor() as pool:
        response = pool.submit(served.ask, "other", LONG)
        served.eventually(lambda: running(served))
        served.machine.kubectl("delete", "pod", *pods, "--wait=false")
        assert response.result().json()["usage"]["completion_tokens"] == LONG
    served.eventually(lambda: served.pods() not in ([], pods))
    served.until_answered("other")


def running(served):
    """Whether the engine says that it generates something."""
    (endpoint,) = served.machine.get("/debug/endpoints", "admin-port").json()["default/tiny-cpu"]
    return endpoint["reading"]["running"]
