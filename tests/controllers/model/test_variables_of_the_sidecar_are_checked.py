"""A sidecar that cannot start would crash again and again: the Model says what is wrong instead."""

import pytest


def with_url(made, backend, url, name="RUNTIME_URL"):
    return made(backend(env=[{"name": name, "value": url}]))


@pytest.mark.parametrize(
    "url",
    [
        "http://a\nb",
        "https://localhost:8000",
        "localhost:8000",
        "http://",
        "http://a:x",
        "http://a?b",
        "http://a b",
    ],
)
def test_urls_that_the_sidecar_refuses_are_problems(made, backend, url):
    children = with_url(made, backend, url)
    (problem,) = children.problems
    assert problem.field == "spec.backends[0].env[0]"
    assert "it must be like http://localhost:8000" in problem.message
    assert children.unbuilt == {"b"}


def test_paths_with_spaces_are_problems(made, backend):
    (problem,) = with_url(made, backend, "/a b", "RUNTIME_METRICS_PATH").problems
    assert "it must be like /metrics" in problem.message


@pytest.mark.parametrize("url", ["http://localhost:8000", "http://$(POD_IP):9000/base", "http://[::1]:1", ""])
def test_others_are_passed_on(made, backend, url):
    assert with_url(made, backend, url).problems == ()
