"""`make up EXAMPLE=examples/autoscaling`, with a directory and ports of its own."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

sys.path.insert(0, str(Path(__file__).parent))

EXAMPLE = Path(__file__).parents[3] / "examples" / "autoscaling"


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory, machine_of: Callable[..., Any]) -> Iterator[Any]:
    machine = machine_of(tmp_path_factory.mktemp("autoscaling") / "state", EXAMPLE).start()
    yield machine
    machine.stop(signal.SIGTERM)


@pytest.fixture
def status(scaled: Any) -> Callable[[str], dict[str, Any]]:
    """The status of a binding."""

    def read(name: str) -> dict[str, Any]:
        return dict(json.loads(scaled.kubectl("get", "aspb", name, "-o", "json")).get("status", {}))

    return read


@pytest.fixture
def replicas(scaled: Any) -> Callable[[str], int]:
    """The replicas that a Deployment has to have."""

    def read(name: str) -> int:
        return int(scaled.kubectl("get", "deployment", name, "-o", "jsonpath={.spec.replicas}"))

    return read


@pytest.fixture
def load(scaled: Any) -> Callable[[int], contextlib.AbstractContextManager[None]]:
    """As many clients at a time, each of which always has a long request under way; every response must be
    whole."""

    @contextlib.contextmanager
    def run(clients: int) -> Iterator[None]:
        stop, failed = threading.Event(), list[str]()

        def ask() -> None:
            body = {"model": "sim-8b", "max_tokens": 400, "messages": [{"role": "user", "content": "Hello"}]}
            with httpx2.Client(trust_env=False, timeout=120) as http:
                while not stop.is_set():
                    answer = http.post(f"{scaled.url}/v1/chat/completions", json=body)
                    if answer.status_code != 200:
                        failed.append(answer.text)

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(clients)]
        for each in threads:
            each.start()
        try:
            yield
        finally:
            stop.set()
            for each in threads:
                each.join(120)
        assert not failed

    return run
