"""What conditions say of pools that requests start, and of routes to them."""

import msgspec
import pytest

LLM = {"app": "llm"}


def noted(obj, **notes):
    """The object with these annotations of Headgate."""
    notes = {f"headgate.dev/{name.replace('_', '-')}": value for name, value in notes.items()}
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=notes))


@pytest.fixture(params=["server", "inference_pool"])
def cold(request, kit):
    """Makes a ModelServer or an InferencePool that requests start."""
    return lambda **notes: noted(getattr(kit, request.param)("s", LLM), scale_from_zero="90", **notes)


def test_a_pool_at_zero_is_ready(kit, cold):
    """Its requests are served, after a while."""
    found = kit.conditions(cold())
    assert found["Ready"] == (
        "True",
        "ScaledToZero",
        "0 of 0 Pods ready: the next request starts it, which is expected to take 90 s",
    )
    assert found.get("ResolvedRefs", ("True",))[0] == "True"


def test_a_pool_that_starts_is_so_too(kit, cold):
    """A Pod that is not ready yet is counted."""
    found = kit.conditions(cold(), kit.pod("p", LLM, ready=False))
    assert found["Ready"][:2] == ("True", "ScaledToZero")
    assert found["Ready"][2].startswith("0 of 1 Pods ready")


def test_with_an_endpoint_it_is_a_pool_as_any_other(kit, cold):
    """Whatever became of an earlier start."""
    found = kit.conditions(cold(start_failed="no GPU is free"), kit.pod("p", LLM))
    assert found["Ready"] == ("True", "EndpointsReady", "1 of 1 Pods ready")


def test_a_failed_start_is_told(kit, cold):
    """Until it is tried again, requests are rejected."""
    found = kit.conditions(cold(start_failed="no GPU is free"))
    assert found["Ready"] == (
        "False",
        "StartFailed",
        "0 of 0 Pods ready: it could not be started: no GPU is free",
    )


def test_a_route_to_a_pool_at_zero_is_ready(kit):
    """It names those that are started by requests."""
    found = kit.conditions(
        kit.route("r", kit.rule("s", "t")),
        noted(kit.server("s", {"app": "none"}), scale_from_zero="90"),
        kit.server("t", LLM),
        kit.pod("p", LLM),
    )
    assert found["Ready"] == (
        "True",
        "EndpointsReady",
        "1 endpoint in 2 ModelServers; started by requests: default/s",
    )


def test_a_route_to_a_failed_start_is_not(kit):
    """Nobody can serve its requests."""
    found = kit.conditions(
        kit.route("r", kit.rule("s")),
        noted(kit.server("s", LLM), scale_from_zero="90", start_failed="no GPU is free"),
    )
    assert found["Ready"][:2] == ("False", "NoReadyEndpoints")
