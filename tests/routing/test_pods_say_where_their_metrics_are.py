"""Annotations of a Pod say where its metrics page is; what they say wrongly is a problem of its pool."""

import pytest

from headgate import api, routing

POOL = api.ObjectRef("ModelServer", "default", "pool")


def translated(server, *pods):
    snapshot = routing.translate([], [server], pods)
    pool = snapshot.pools[POOL]
    return {endpoint.name: page for endpoint, page in pool.metrics_pages.items()}, snapshot.problems


@pytest.mark.parametrize(
    ("notes", "page"),
    [
        ({"prometheus.io/port": "8100"}, routing.MetricsPage(port=8100)),
        ({"prometheus.io/path": "/stats/metrics"}, routing.MetricsPage(path="/stats/metrics")),
        ({"prometheus.io/scheme": "https"}, routing.MetricsPage(is_https=True)),
        ({"prometheus.io/scheme": "http"}, routing.MetricsPage(is_https=False)),
        ({"prometheus.io/scrape": "true"}, None),
        ({"prometheus.io/port": "8100", "headgate.dev/port": "18000"}, None),
    ],
)
def test_annotations_are_those_that_prometheus_users_know(server, pod, notes, page):
    """A port of the Pod's template is not meant where the Pod is reached at another."""
    pages, problems = translated(server(), pod("a", metadata={"annotations": notes}))
    assert pages == ({} if page is None else {"default/a": page})
    assert not problems


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("prometheus.io/port", "http"),
        ("prometheus.io/port", "65536"),
        ("prometheus.io/port", "0"),
        ("prometheus.io/path", "metrics"),
        ("prometheus.io/path", "/metrics HTTP/1.1\r\nhost: elsewhere"),
        ("prometheus.io/scheme", "gopher"),
    ],
)
def test_what_cannot_be_asked_for_is_a_problem(server, pod, name, value):
    """The endpoint serves all the same, and its page is asked for at the usual place."""
    pages, problems = translated(server(), pod("a", metadata={"annotations": {name: value}}), pod("b"))
    assert pages == {}
    (problem,) = problems
    assert problem.reason == "InvalidAnnotation"
    assert f"Pod default/a, metadata.annotations[{name}]" in problem.message
