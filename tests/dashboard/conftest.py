"""The dashboard in this process, over workers that say what a test wants, and a browser to look at it."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from headgate import api, dashboard, serving
from headgate.dashboard import requests, sources
from headgate.dataplane.fleet_shown import EndpointRow, Fleet
from headgate.dataplane.records.kept_story import (
    AttemptShown,
    KeptPage,
    KeptRequest,
    PickShown,
    QueueShown,
)
from headgate.dataplane.routes_shown import (
    ProblemShown,
    RouteShown,
    RoutesPage,
    RuleShown,
    TenantShown,
)
from headgate.requests import pool_signals
from headgate.telemetry.sums import Family, Sample

PATIENCE_S = 60.0
"""Only turns a hang into a failure."""


def endpoint(name: str, **values: Any) -> EndpointRow:
    """A healthy one, unless told otherwise."""
    usual = {
        "pool": "default/m",
        "name": name,
        "address": "10.0.0.1:8000",
        "engine": "vLLM",
        "state": "healthy",
        "why": "",
        "requests": 1,
        "elsewhere": 0,
        "queue_s": 0.25,
        "running": 3,
        "waiting": 2,
        "kv_usage": 0.5,
        "prefix_blocks": 10,
        "started": 100,
        "failures": 0,
        "reading": "fresh",
        "problem": "",
    }
    return EndpointRow(**usual | values)


def pool(name: str = "m", **values: Any) -> pool_signals.PoolSignals:
    return pool_signals.PoolSignals(kind="ModelServer", namespace="default", name=name, **values)


def kept(number: int = 1, **values: Any) -> KeptRequest:
    """A request that failed at its second endpoint after it was queued, unless told otherwise."""
    usual: dict[str, Any] = {
        "number": number,
        "at": 1_790_000_000.0 + number,
        "id": f"id-{number}",
        "client": "10.1.1.1",
        "tenant": "team-a",
        "method": "POST",
        "path": "/v1/chat/completions",
        "model": "m",
        "upstream_model": "m",
        "stream": True,
        "route": "default/m",
        "rule": "all",
        "pool": "default/m",
        "status": 502,
        "outcome": "upstream_failed",
        "origin": "upstream",
        "error": "the endpoint closed the connection",
        "queue": QueueShown(0.001, 1.5, 0.0, "team-a", 0, ""),
        "pick": PickShown(4100, 3072, 0.083),
        "prefill": "",
        "attempts": [
            AttemptShown("default/a", "10.0.0.1:8000", "connect", 1.501, 2.0),
            AttemptShown("default/b", "10.0.0.2:8000", "upstream_failed", 2.0, 4.25),
        ],
        "sent_s": 2.001,
        "head_s": None,
        "first_byte_s": None,
        "total_s": 4.25,
        "prompt_tokens": None,
        "output_tokens": None,
        "bytes_in": 100,
        "bytes_out": 0,
        "trace": None,
    }
    return KeptRequest(**usual | values)


def routes_page(**values: Any) -> RoutesPage:
    usual: dict[str, Any] = {"routes": [], "tenants": [], "problems": [], "denied": []}
    told = usual | values
    totals = {f"{name}_total": len(told[name]) for name in ("routes", "tenants", "problems")}
    return RoutesPage(**totals | told)


def route(name: str = "default/m", **values: Any) -> RouteShown:
    rules = [RuleShown("all", False, [("default/m", 0.75), ("default/n", 0.25)])]
    usual: dict[str, Any] = {
        "name": name,
        "model": "m",
        "adapters": [],
        "rules": rules,
        "takes_unknown": False,
    }
    return RouteShown(**usual | values)


def tenant(name: str = "team-a", **values: Any) -> TenantShown:
    usual: dict[str, Any] = {"models": ["m"], "share": 3, "limits": [f"tenant/{name}/minute"], "lowest": None}
    return TenantShown(name=name, highest=1, **usual | values)


def queue(*flows: tuple[str, int], why: str = "the pool has no capacity", pool: str = "default/m") -> Any:
    """`/debug/flow` with these flows in one band, and how many requests each has queued."""
    rows = [
        {"name": name, "requests": count, "weight": 1.0, "oldest_s": count / 10, "standing": f"is {place}"}
        for place, (name, count) in enumerate(flows)
    ]
    first = [{"flow": name, "why": why} for name, _ in flows]
    band = {"priority": 0, "flows": rows, "first": first}
    total = sum(count for _, count in flows)
    view = {"requests": total, "bytes": 10 * total, "saturation": 1.5, "bands": [band]}
    return {pool: [{"is_on": True, "in_flight": 4, "why": why, "queue": view}]}


def limit(available: float = 250.0, used: int = 1000, refused: int = 2, **values: Any) -> dict[str, Any]:
    """One entry of `/debug/limits`."""
    account = {"limit": 1000, "available": available, "used": used, "requests_refused": refused}
    return {"unit": "minute", "degraded": False, "input": account} | values


def condition(kind: str, status: str = "True", words: str = "words") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": words,
        "message": words,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def objects(text: str = "words") -> dashboard.Objects:
    """One of each kind, with this text wherever others may write."""
    metadata = {"name": text, "namespace": text, "generation": 2}
    backend: dict[str, Any] = {"name": "b", "type": "vLLM", "modelURI": "hf://m", "workers": [{}]}
    backend |= {"minReplicas": 1, "maxReplicas": 4}
    adapter = {"name": text, "state": "Failed", "error": text}
    seen = {"name": "b", "replicas": 3, "readyReplicas": 2, "adapters": [adapter]}
    model = {
        "metadata": metadata,
        "spec": {"backends": [backend]},
        "status": {
            "conditions": [condition("Active", "False", text), condition("Failed", "False", "unseen")],
            "backendStatuses": [seen],
            "observedGeneration": 1,
        },
    }
    binding = {
        "metadata": metadata,
        "spec": {"policyRef": {"name": text}},
        "status": {
            "currentReplicas": 2,
            "desiredReplicas": 4,
            "recommendedReplicas": 9,
            "metricName": text,
            "value": text,
            "targetValue": text,
            "rule": text,
            "message": text,
            "lastScaleTime": text,
            "conditions": [condition("ScalingLimited", "True", text)],
        },
    }
    event = {
        "metadata": metadata,
        "involvedObject": {"kind": text, "namespace": text, "name": text},
        "reason": text,
        "message": text,
        "type": "Warning",
        "count": 7,
        "lastTimestamp": text,
    }
    return dashboard.Objects(
        [msgspec.convert(model, api.Model)],
        [msgspec.convert(binding, api.AutoscalingPolicyBinding)],
        [],
        [msgspec.convert(event, api.Event)],
        [text],
    )


class FakeWorkers:
    """Workers that answer with `pages`, by their number and path."""

    def __init__(self) -> None:
        self.pages: dict[int, dict[str, Any]] = {}
        self.silent: list[str] = []
        self.asked: list[str] = []
        self.said: dict[str, Any] = {
            "version": "0.1.0",
            "address": "127.0.0.1:8080",
            "is_ready": True,
            "has_api_server": True,
            "errors": [],
        }
        self.named: list[dict[str, Any]] = []
        self.counted: list[Family] = []
        self.there = dashboard.Objects()
        self.has(0)

    def has(self, worker: int, *rows: EndpointRow, pools: tuple[Any, ...] = (), **pages: Any) -> None:
        """A worker and its endpoints, pools, and other pages by the last part of their path."""
        self.pages[worker] = {
            "/debug/fleet": Fleet(list(rows), len(rows)),
            "/debug/kept": KeptPage([], [], [], 0),
            "/debug/routes": routes_page(),
            "/debug/limits": {},
            "/debug/flow": {},
            f"/debug/requests?limit={requests.IN_FLIGHT}": {"total": 0, "requests": []},
            "/signals": pool_signals.Page(is_ready=True, pools=list(pools)),
        } | {f"/debug/{name}": page for name, page in pages.items()}
        if "running" in pages:
            self.pages[worker][f"/debug/requests?limit={requests.IN_FLIGHT}"] = pages["running"]

    async def ask(self, path: str) -> dashboard.Told:
        self.asked.append(path)
        bodies = {
            worker: page if isinstance(page := pages[path], bytes) else msgspec.json.encode(page)
            for worker, pages in self.pages.items()
        }
        return dashboard.Told(bodies, list(self.silent))

    def facts(self) -> dict[str, Any]:
        return self.said

    async def objects(self) -> dashboard.Objects:
        return self.there

    async def families(self, names: Collection[str]) -> list[Family]:
        return [each for each in self.counted if each.name in names]

    def urls(self) -> list[dict[str, Any]]:
        return self.named


class Told:
    """What workers may tell, for tests that need only a part."""

    routes_page = staticmethod(routes_page)
    route = staticmethod(route)
    tenant = staticmethod(tenant)
    queue = staticmethod(queue)
    limit = staticmethod(limit)
    objects = staticmethod(objects)
    condition = staticmethod(condition)


@pytest.fixture
def told() -> type[Told]:
    return Told


@pytest.fixture(name="kept")
def _kept() -> Callable[..., KeptRequest]:
    return kept


@pytest.fixture(name="endpoint")
def _endpoint() -> Callable[..., EndpointRow]:
    return endpoint


@pytest.fixture(name="pool")
def _pool() -> Callable[..., pool_signals.PoolSignals]:
    return pool


@pytest.fixture
def workers() -> FakeWorkers:
    return FakeWorkers()


@pytest.fixture
async def http(workers: FakeWorkers, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx2.AsyncClient]:
    """Asks the dashboard of `workers`, without sockets, and for each page anew."""
    monkeypatch.setattr(sources, "SHARED_S", 0.0)
    transport = httpx2.ASGITransport(dashboard.application(workers))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


# -- attacks

ATTACKS = (
    "<script>document.title='taken'</script>",
    '"><img src=x onerror="document.title=\'taken\'">',
    "' onmouseover='document.title=1' x='",
    "{{ 7 * 7 }}{% raw %}",
    "</title></style></textarea><svg onload=document.title='taken'>",
    "javascript:document.title='taken'",
    '<div hx-get="/x" hx-trigger="load" hx-on::load="document.title=1">',
    "\u202eevil\u0000\ud7ff",
)


@pytest.fixture(params=ATTACKS)
def attack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fill(workers: FakeWorkers) -> Callable[[str], None]:
    """Puts a text into everything that workers tell in which a stranger has a say."""

    def fill_with(text: str) -> None:
        named = dict.fromkeys(("pool", "address", "engine", "state", "why", "problem"), text)
        words = (
            "id",
            "client",
            "tenant",
            "method",
            "path",
            "model",
            "upstream_model",
            "route",
            "rule",
            "pool",
        )
        words += ("outcome", "origin", "error", "prefill", "trace")
        request = kept(
            **dict.fromkeys(words, text),
            queue=QueueShown(0.0, 1.0, 0.5, text, 0, text),
            attempts=[AttemptShown(text, text, text, 0.0, 1.0)],
        )
        shown = dict.fromkeys(("client", "phase", "id", "method", "path", "model", "endpoint", "flow"), text)
        workers.has(
            0,
            endpoint(text, **named),
            pools=(pool(text[:1024], endpoints=1),),
            kept=KeptPage([request], [request], [request], 3),
            running={"total": 1, "requests": [shown | {"age_s": 1.0, "is_client_slow": True}]},
            routes=routes_page(
                routes=[
                    route(text, model=text, adapters=[text], rules=[RuleShown(text, True, [(text, 1.0)])])
                ],
                tenants=[tenant(text, models=[text], limits=[text])],
                problems=[ProblemShown(text, text, text, text)],
                denied=[text],
            ),
            limits={text: limit(unit=text, degraded=True)},
            flow=queue((text, 3), why=text, pool=text),
        )
        labels = ("model", "route", "pool", "code", "outcome")
        samples = [Sample((text, text, text, "200", text), 3.0)]
        workers.counted = [Family("headgate_gateway_requests", "counter", "", labels, samples=samples)]
        workers.there = objects(text)
        workers.silent = [text]
        workers.said = workers.said | {"errors": [text], "address": text}
        workers.named = [{"name": text, "url": text, "problem": text, "servers": []}]

    return fill_with


@pytest.fixture
def attack_all(fill: Callable[[str], None]) -> Callable[[], None]:
    return lambda: fill("".join(ATTACKS))


# -- a browser


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(chromium: str) -> AsyncIterator[Browser]:
    """Chromium, without a window. Tests with it run on the loop of their module."""
    options = ["--disable-dev-shm-usage", "--disable-gpu"]
    if os.geteuid() == 0:
        options.append("--no-sandbox")  # root has none
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(executable_path=chromium, args=options)
        yield started
        await started.close()


class Complaints(list[str]):
    """What a page wrote to its console: blocked by the policy, failed to load, and errors of scripts."""

    def listen(self, page: Page) -> None:
        page.on("console", lambda said: self.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.append(str(error)))
        page.on("dialog", lambda dialog: self.append(f"dialog {dialog.message}"))


@pytest_asyncio.fixture(loop_scope="module")
async def look(browser: Browser, workers: FakeWorkers) -> AsyncIterator[Callable[..., Any]]:
    """Opens the dashboard of `workers` in a new window; a page that complains fails its test."""
    complaints = Complaints()
    listener = serving.listening_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    served = asyncio.create_task(serving.serve_page(dashboard.application(workers), listener))
    contexts = []

    async def open_page(path: str = "/dashboard", **options: Any) -> Page:
        context = await browser.new_context(**options)
        contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_S * 1e3)
        complaints.listen(page)
        await page.goto(url + path)
        return page

    yield open_page
    for context in contexts:
        await context.close()
    served.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await served
    assert not complaints
