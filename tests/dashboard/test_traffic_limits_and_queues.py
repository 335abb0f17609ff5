"""The pages of routes and queues: how much comes, how much is left, and who waits."""

import re

import pytest

from headgate.dashboard import traffic
from headgate.dashboard.traffic import Traffic, quantile
from headgate.dataplane.routes_shown import RuleShown
from headgate.telemetry.sums import Family, Sample

REQUEST_LABELS = ("model", "route", "pool", "code", "outcome")
BOUNDS = (0.1, 0.5, 1.0)


async def text_of(http, path):
    answer = await http.get(path)
    assert answer.status_code == 200, answer.text
    return " ".join(re.sub(r"<[^>]+>", " ", answer.text).split())


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def requests(**codes):
    """Counters of the model m by status, such as c200=5."""
    samples = [
        Sample(("m", "default/r", "default/p", code[1:], "x"), float(value)) for code, value in codes.items()
    ]
    return Family(traffic.REQUESTS, "counter", "", REQUEST_LABELS, samples=samples)


def first_tokens(*counts):
    sample = Sample(("m", "default/p"), float(sum(counts)), list(counts))
    return Family(traffic.FIRST_TOKEN, "histogram", "", ("model", "pool"), bounds=BOUNDS, samples=[sample])


# -- rates


def test_rates_are_of_the_last_minute():
    """However long the gateway has counted before, and with errors as shares."""
    clock = Clock()
    seen = Traffic(clock)
    seen.take([requests(c200=1_000_000, c503=70)])
    assert seen.route("default/r").per_s is None
    assert seen.route("default/r").total == 1_000_070
    for second in range(5, 300, 5):
        clock.now = 1000.0 + second
        seen.take([requests(c200=1_000_000 + second * 7, c429=second * 2, c503=70 + second)])
    row = seen.route("default/r")
    assert row.per_s == pytest.approx(10.0)
    assert (row.client_errors, row.server_errors) == (pytest.approx(0.2), pytest.approx(0.1))
    assert clock.now - seen._samples[0].at <= traffic.WINDOW_S + 5
    assert seen.route("default/other") == (0.0, None, None, 0)


def test_samples_are_few():
    """Many viewers who ask often cost no more memory."""
    clock = Clock()
    seen = Traffic(clock)
    for tick in range(10_000):
        clock.now = 1000.0 + tick / 10
        seen.take([requests(c200=tick)])
    assert len(seen._samples) <= traffic.WINDOW_S / traffic.STEP_S + 2


def test_what_was_long_ago_is_no_rate():
    """If nobody looked for an hour, its mean would say nothing of now."""
    clock = Clock()
    seen = Traffic(clock)
    seen.take([requests(c200=5)])
    clock.now += 3600
    seen.take([requests(c200=50_000)])
    assert seen.route("default/r").per_s is None


def test_series_are_bounded(monkeypatch):
    """A gateway may have thousands of models."""
    monkeypatch.setattr(traffic, "MAX_KEYS", 10)
    samples = [Sample((f"m{n}", "r", "p", "200", "served"), 1.0) for n in range(100)]
    seen = Traffic(Clock())
    seen.take([Family(traffic.REQUESTS, "counter", "", REQUEST_LABELS, samples=samples)])
    assert len(seen._samples[0].counts) == 10


def test_latencies_are_of_the_last_minute():
    """As Prometheus would estimate them."""
    clock = Clock()
    seen = Traffic(clock)
    seen.take([requests(c200=10), first_tokens(1000, 0, 0, 0)])
    clock.now += 30
    seen.take([requests(c200=40), first_tokens(1000, 20, 10, 0)])
    ((row,), total) = seen.models(10)
    assert total == 1
    assert (row.model, row.pool, row.requests.per_s) == ("m", "default/p", pytest.approx(1.0))
    median_s, most_s = row.first_token_s
    assert median_s == pytest.approx(0.1 + 0.4 * 15 / 20)
    assert most_s == pytest.approx(0.5 + 0.5 * 8.5 / 10)


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ([0, 0, 0, 0], 0.5, None),
        ([10, 0, 0, 0], 0.5, 0.05),
        ([0, 0, 0, 3], 0.5, 1.0),
        ([1, 0, 1, 0], 1.0, 1.0),
        ([], 0.5, None),
    ],
)
def test_quantiles(counts, share, expected):
    """Between the bounds of a bucket, and the last bound beyond it."""
    assert quantile(share, BOUNDS, counts) == (None if expected is None else pytest.approx(expected))


# -- pages


async def test_a_route_has_its_targets_and_limits(http, workers, told):
    """Shares of targets as percent, and the least that any worker knows to be left."""
    routes = told.routes_page(routes=[told.route(adapters=["sql"])])
    workers.has(1, routes=routes, limits={"default/m": told.limit(250.0, used=600)})
    workers.has(2, routes=routes, limits={"default/m": told.limit(-30.0, degraded=True)})
    page = await text_of(http, "/dashboard/routes")
    assert "default/m m adapters sql all: default/m 75%, default/n 25%" in page
    assert "-30 of 1,000 input tokens a minute left, 4 requests rejected, its Redis is away" in page


async def test_traffic_is_by_model_and_route(http, workers, told, monkeypatch):
    """Totals at once, and rates after a second look."""
    monkeypatch.setattr(traffic, "STEP_S", 0.0)
    workers.has(0, routes=told.routes_page(routes=[told.route("default/r")]))
    workers.counted = [requests(c200=1200), first_tokens(0, 0, 0, 0)]
    page = await text_of(http, "/dashboard/routes")
    assert "Rates appear after a few seconds" in page
    assert re.search(r"default/r m .* -/s - - 1,200", page)
    workers.counted = [requests(c200=1200, c503=800), first_tokens(0, 1000, 0, 0)]
    page = await text_of(http, "/dashboard/routes")
    assert "Rates appear" not in page
    assert re.search(r"m default/p [\d,.]+/s 0% 100% 300 ms 480 ms - - 0/s 0/s 2,000", page)


async def test_problems_of_objects_are_told(http, workers, told):
    """What an object asks for and does not get, and what the gateway may not read."""
    workers.has(0, routes=told.routes_page(denied=["it may not list Secrets in default"]))
    assert "it may not list Secrets in default" in await text_of(http, "/dashboard/routes")


async def test_queues_tell_who_waits(http, workers, told):
    """By fairness id, summed over workers, with tenants marked; the longest first."""
    routes = told.routes_page(tenants=[told.tenant("team-a")])
    workers.has(1, routes=routes, flow=told.queue(("10.0.0.1", 2), ("team-a", 5)))
    workers.has(2, routes=routes, flow=told.queue(("team-a", 7)))
    page = await text_of(http, "/dashboard/queues")
    assert "default/m 14 140 8 150% the pool has no capacity" in page
    standing = "1 is 0 in one of 2 workers the pool has no capacity"
    assert f"team-a tenant default/m 0 12 700 ms {standing} 10.0.0.1 default/m 0 2" in page


async def test_tenants_have_their_terms(http, workers, told):
    """Kind Tenant: models, share, priority, what is queued, and what is left of its limits."""
    workers.has(
        0,
        routes=told.routes_page(tenants=[told.tenant("team-b"), told.tenant("team-a")]),
        limits={"tenant/team-a/minute": told.limit()},
        flow=told.queue(("team-a", 2)),
    )
    page = await text_of(http, "/dashboard/queues")
    assert "team-a m 3 any to 1 2" in page
    assert "250 of 1,000 input tokens a minute left, 2 requests rejected team-b" in page


async def test_a_queue_that_is_off_says_so(http, workers, told):
    flow = told.queue()
    flow["default/m"][0]["is_on"] = False
    workers.has(0, flow=flow)
    assert "the queue is off" in await text_of(http, "/dashboard/queues")


async def test_the_busiest_of_many_models_are_shown(http, workers):
    """An engine may list thousands of adapters: the page stays short, and cheap for the supervisor."""
    samples = [
        Sample((f"m{number:04}", "default/r", "default/p", "200", "served"), float(number))
        for number in range(2000)
    ]
    workers.counted = [Family(traffic.REQUESTS, "counter", "", REQUEST_LABELS, samples=samples)]
    told = await text_of(http, "/dashboard/routes")
    assert "The 100 busiest of 2,000." in told
    assert "m1999" in told
    assert "m0001" not in told


async def test_http_routes_have_their_traffic(http, workers, told):
    """To Services and to pools together."""
    rule = RuleShown("rules[0]", False, [("Service/shop/web:80", 1.0)])
    name = "HTTPRoute/shop/r"
    workers.has(0, routes=told.routes_page(routes=[told.route(name, model=None, rules=[rule], is_http=True)]))
    labels = ("route", "service", "code", "outcome")
    samples = [Sample((name, "shop/web", "200", "served"), 5.0), Sample((name, "none", "404", "x"), 2.0)]
    to_pools = [Sample(("m", name, "shop/p", "200", "served"), 10.0)]
    workers.counted = [
        Family(traffic.SERVICE_REQUESTS, "counter", "", labels, samples=samples),
        Family(traffic.REQUESTS, "counter", "", REQUEST_LABELS, samples=to_pools),
    ]
    page = await text_of(http, "/dashboard/routes")
    row = f"{name} by host, path and headers rules[0]: Service/shop/web:80 100% -/s - - 17"
    assert row in page
