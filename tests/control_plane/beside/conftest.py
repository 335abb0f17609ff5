"""A model whose engines other programs scale: gateways of the chart measure its load, and Prometheus scrapes
them. Manifests and rules are those of docs/beside-hpa-and-keda.md and of the chart."""

from __future__ import annotations

import itertools
import json
import random
import re
import shlex
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from containers import write_settings
from traffic import MODEL, answers, route_to, server

PAGE = Path(__file__).parents[3] / "docs" / "beside-hpa-and-keda.md"
RANGE = "10.244.80.0/24"
"""Addresses of the engines."""
PROMPT_WORDS = range(3000, 7000)
"""Of many lengths, so that gateways can learn what a token costs. Even by their first guess, the requests
below are work for several engines."""
TOKEN_S = 0.0003
"""Of an engine, for a token of a prompt."""
RATE = 1.5
"""Requests a second: each is 1.7 s of work for an engine in the mean, so three engines are enough."""
AT_ONCE = 60


def block(word: str) -> str:
    """The first YAML of the page that has a word."""
    blocks: list[str] = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    return next(each for each in blocks if word in each)


@pytest.fixture
def adapter_rules() -> str:
    """The configuration of the adapter that the page has."""
    return block("seriesQuery")


@dataclass(frozen=True)
class Model:
    """The model `chat`, with its engines and its gateways."""

    cluster: Any
    namespace: str
    gateways: list[str]
    """Their URLs."""

    def manifest(self, kind: str, **words: str) -> dict[str, Any]:
        """An object of the page, for this namespace, with some words replaced."""
        text = block(f"kind: {kind}").replace("team-a", self.namespace)
        for old, new in words.items():
            assert old in text
            text = text.replace(old, new)
        manifest: dict[str, Any] = yaml.safe_load(text)
        return manifest

    def command(self, words: str) -> list[str]:
        """The words after `kubectl` of a command of the page, for this namespace."""
        [line] = re.findall(rf"^kubectl ({words} .*)$", PAGE.read_text(), re.M)
        return shlex.split(line.replace("team-a", self.namespace))

    def get(self, kind: str, name: str = "chat") -> Any:
        return self.cluster.get(kind, name, "-n", self.namespace)

    def replicas(self) -> int:
        return int(self.get("deployment")["spec"]["replicas"])

    def ready(self) -> int:
        return int(self.get("deployment")["status"].get("readyReplicas", 0))

    def endpoints(self) -> int:
        """How many its gateways know, all together."""
        admins = [url.replace(":8080", ":8081") for url in self.gateways]
        pages = [httpx2.get(f"{url}/debug/config", trust_env=False, timeout=60).json() for url in admins]
        return sum(len(page["pools"].get(f"{self.namespace}/chat", ())) for page in pages)

    def ask(self, gateway: int = 0, timeout_s: float = 600) -> httpx2.Response:
        """A streamed request with a prompt that no engine has seen."""
        number = random.choice(PROMPT_WORDS)
        text = " ".join(random.choices(("one", "two", "three", "four", "five", "six"), k=number))
        message = {"role": "user", "content": text}
        body = {"model": MODEL, "stream": True, "max_tokens": 2, "messages": [message]}
        url = f"{self.gateways[gateway]}/v1/chat/completions"
        return httpx2.post(url, json=body, trust_env=False, timeout=timeout_s)


@pytest.fixture
def models(new_namespace) -> str:
    """The namespace of the model: another one than that of the gateways."""
    return str(new_namespace())


@pytest.fixture
def chart(cluster, helm, namespace, models, lasting_node, tmp_path) -> list[dict[str, Any]]:
    """The chart, applied, with two gateways."""
    values = {
        "watchNamespaces": [models],
        "monitoring": {"podMonitor": {"enabled": True}, "signals": {"enabled": True}},
        "admission": {"policies": {"enabled": False}},
        "gateway": {"replicas": 2, "nodeSelector": {"kubernetes.io/hostname": lasting_node.name}},
        "controller": {"nodeSelector": {"kubernetes.io/hostname": lasting_node.name}},
    }
    rendered = helm.template(values, namespace)
    wanted = [each for each in rendered if each["kind"] not in ("PodMonitor", "PrometheusRule")]
    for where in (namespace, models):
        own = [each for each in wanted if each["metadata"].get("namespace", namespace) == where]
        cluster.apply(*own, namespace=where)
    write_settings(rendered, tmp_path)
    return rendered


@pytest.fixture
def model(
    cluster,
    namespace,
    models,
    chart,
    lasting_node,
    process_node,
    new_address,
    run_container,
    tmp_path,
    eventually,
) -> Model:
    """One replica is wanted, and both gateways serve it."""
    engines = process_node(f"engines-{models}", RANGE).name
    cluster.apply(_deployment(engines), server("chat"), route_to("chat"), namespace=models)
    kubeconfig = cluster.kubeconfig_of("headgate-gateway", namespace, tmp_path)
    pods = eventually(lambda: (found := lasting_node.scheduled(namespace)) and _gateways(found))
    addresses = []
    for pod in pods:
        addresses.append(new_address())
        run_container(chart, "gateway", addresses[-1], kubeconfig, pod)
        lasting_node.run(pod, namespace, addresses[-1])
    for address in addresses:
        eventually(lambda address=address: answers(f"http://{address}:8081/readyz"))
    return Model(cluster, models, [f"http://{address}:8080" for address in addresses])


def _gateways(pods: list[str]) -> list[str]:
    found = [name for name in pods if "headgate-gateway" in name]
    return found if len(found) == 2 else []


def _deployment(node: str) -> dict[str, Any]:
    labels = {"app": "chat"}
    engine = {
        "name": "engine",
        "image": "headgate",
        "command": ["headgate", "simulate", "engine"],
        "args": [f"--model={MODEL}", "--port=8000", f"--per-prefill-token-s={TOKEN_S}"],
        "ports": [{"containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1},
    }
    template = {
        "metadata": {"labels": labels},
        "spec": {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [engine]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


@pytest.fixture
def keep_busy() -> Iterator[Callable[..., threading.Event]]:
    """Sends requests to all gateways in turn until the event is set, or the test ends. None may fail.

    At a constant rate, so that the work does not depend on how fast this machine is; but no more than AT_ONCE
    are under way.
    """
    statuses: set[int] = set()
    with ExitStack() as running:

        def run(model: Model, rate: float = RATE) -> threading.Event:
            enough, places = threading.Event(), threading.Semaphore(AT_ONCE)
            clients = running.enter_context(ThreadPoolExecutor(AT_ONCE))

            def ask(gateway: int) -> None:
                try:
                    statuses.add(model.ask(gateway).status_code)
                finally:
                    places.release()

            def send() -> None:
                for number in itertools.count():
                    if enough.wait(1 / rate):
                        return
                    if places.acquire(blocking=False):
                        asked.append(clients.submit(ask, number % len(model.gateways)))

            sender = threading.Thread(target=send)
            running.callback(sender.join)
            running.callback(enough.set)
            sender.start()
            return enough

        asked: list[Future[None]] = []
        yield run
    for each in asked:
        each.result()
    assert statuses <= {200}


@pytest.fixture
def signal_rules(chart, tmp_path) -> Path:
    """The recording rules of the chart, evaluated each second."""
    [spec] = [each["spec"] for each in chart if each["kind"] == "PrometheusRule"]
    for group in spec["groups"]:
        group["interval"] = "1s"
    (file := tmp_path / "signals.json").write_text(json.dumps(spec))
    return file
