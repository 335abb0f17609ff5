"""Models on the processes of `headgate up`, under load while they change."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent / "driver"))
# What Models do is the same here and in a cluster.
sys.path.insert(0, str(Path(__file__).parents[2] / "controllers" / "model" / "behaviors"))

from fleet_of_models import LIMIT_S, Models, client_of
from model_traffic import Load, WrongAnswerError, ask, load
from up_pieces import Pieces, answers, wait

FOLDER = Path(__file__).parent
ENGINE = ["headgate", "simulate", "as", "--profile", "fast", "--base-s", "0.02"]
"""A stream of the load takes it about a second."""
PATTERNS = ("vllm/*", "lmsysorg/*", "other/*")


@dataclass
class Site:
    """API server, node, controller and a gateway, or several, as processes."""

    pieces: Pieces
    directory: Path
    gateways: dict[str, tuple[str, str]]
    """By their name: the inference API and the admin page."""

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "state" / "kubeconfig"

    def until_ready(self, name: str) -> None:
        """Returns once a gateway that was started serves."""
        wait(lambda: answers(f"{self.gateways[name][1]}/readyz"))

    def start_what_has_ended(self) -> None:
        """Tests of another folder may have come between, or one that failed with pieces stopped."""
        for name in self.pieces.words:
            if name not in self.pieces.running or self.pieces.running[name].poll() is not None:
                self.pieces.start(name)
        for name in self.gateways:
            self.until_ready(name)

    @property
    def urls(self) -> list[str]:
        return [url for url, _ in self.gateways.values()]


_sites: list[Site] = []
"""The one that runs, if any."""


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Processes that the next test does not need would take CPU until the end of the session."""
    if nextitem is None or FOLDER not in nextitem.path.parents:
        end_sites()


def pytest_sessionfinish() -> None:
    """Nothing outlives tests that were interrupted."""
    end_sites()


def end_sites() -> None:
    while _sites:
        _sites.pop().pieces.end()


@pytest.fixture
def site(tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int]) -> Site:
    """What all tests share; each of them leaves it as it found it."""
    if not _sites:
        start_site(tmp_path_factory, unused_tcp_port_factory)
    return _sites[0]


def start_site(tmp_path_factory: pytest.TempPathFactory, unused_tcp_port_factory: Callable[[], int]) -> None:
    directory = tmp_path_factory.mktemp("models")
    for name in ("weights", "others", "adapter", "adapter-2"):
        (directory / name).mkdir()
        (directory / name / "config.json").write_text("{}")
    images = directory / "images.yaml"
    images.write_text(
        yaml.safe_dump(
            {
                "images": [{"image": each, "command": ENGINE, "wrap": True} for each in PATTERNS],
                "claims": [
                    {"claim": each, "directory": str(directory / each)}
                    for each in ("weights", "others", "adapter", "adapter-2")
                ],
            }
        )
    )
    site = Site(Pieces(directory), directory, {})
    _sites.append(site)
    state = directory / "state"
    try:
        site.pieces.start("apiserver", "apiserver", "--state", state, "--port", unused_tcp_port_factory())
        wait(site.kubeconfig.exists)
        own = ("--kubeconfig", site.kubeconfig)
        site.pieces.start("node", "node", *own, "--state", state, "--images", images, "--kubelet-port", 0)
        site.pieces.start("controller", "controller", *own)
        for workers, name in enumerate(("gateway", "gateway-2"), 1):
            start_gateway(site, name, workers, unused_tcp_port_factory)
        for name in site.gateways:
            site.until_ready(name)
    except BaseException:
        _sites.remove(site)
        site.pieces.end()
        raise


def start_gateway(site: Site, name: str, workers: int, new_port: Callable[[], int]) -> None:
    port, admin, metrics = new_port(), new_port(), new_port()
    site.gateways[name] = (f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin}")
    site.pieces.start(
        *(name, "gateway", "--kubeconfig", site.kubeconfig, "--port", port),
        *("--admin-port", admin, "--metrics-port", metrics, "--queue-no-endpoint-wait-s", 0),
        *("--workers", workers),
        *("--shutdown-lameduck-s", 2, "--clients-trusted-networks", "127.0.0.1/32"),
    )


@pytest.fixture
async def models(site: Site) -> AsyncIterator[Models]:
    """Those of the site: none, at the beginning, also after a test that failed."""
    site.start_what_has_ended()
    async with client_of(site.kubeconfig.read_text()) as http:
        models = Models(http)
        for left in await models.all():
            await models.delete("models", left["metadata"]["name"])
            await models.gone(left["metadata"]["uid"])
        yield models


@pytest.fixture
def under_load(site: Site, models: Models) -> Callable[..., contextlib.AbstractAsyncContextManager[Load]]:
    """`async with under_load("m"):` asks the Model by this name until the end of the block. Nobody gets an
    error, and at the end the Model is deleted and leaves nothing."""

    @contextlib.asynccontextmanager
    async def run(*names: str, model: str = "m") -> AsyncIterator[Load]:
        async with load(site.urls, names or (model,)) as running:
            yield running
            await running.goes_on()
        running.has_no_failure()
        uid = (await models.get("models", model))["metadata"]["uid"]
        await models.delete("models", model)
        await models.gone(uid)

    return run


@pytest.fixture
def eventually_answers(site: Site) -> Callable[[str], Awaitable[None]]:
    """Returns once every gateway answers for a name."""

    async def answered(name: str) -> None:
        began = time.monotonic()
        async with httpx2.AsyncClient(trust_env=False, timeout=180) as http:
            for url in site.urls:
                while True:
                    try:
                        await ask(http, url, name, streamed=False)
                        break
                    except WrongAnswerError:
                        assert time.monotonic() - began < LIMIT_S
                        await asyncio.sleep(0.1)

    return answered
