"""Annotations say where engines publish what their caches hold; wrong ones are a problem of the pool."""

import pytest

from headgate import api, routing

POOL = api.ObjectRef("ModelServer", "default", "pool")
EVENTS, REPLAY, RANKS = (f"headgate.dev/kv-events{ending}" for ending in ("", "-replay", "-ranks"))


def translated(server, *pods):
    snapshot = routing.translate([], [server], pods)
    pool = snapshot.pools[POOL]
    return {endpoint.name: events for endpoint, events in pool.kv_events.items()}, snapshot.problems


@pytest.mark.parametrize(
    ("notes", "events"),
    [
        ({}, None),
        ({REPLAY: "tcp://*:5558"}, None),
        ({EVENTS: "tcp://*:5557"}, routing.KvEvents(port=5557)),
        ({EVENTS: "5557"}, routing.KvEvents(port=5557)),
        ({EVENTS: "tcp://[::]:5557", REPLAY: "5558"}, routing.KvEvents(port=5557, replay_port=5558)),
        ({EVENTS: "tcp://0.0.0.0:5557", RANKS: "8"}, routing.KvEvents(port=5557, ranks=8)),
    ],
)
def test_a_pod_or_its_model_server_says_it(server, pod, notes, events):
    """In the words of the engine's own flag, so that they can be copied."""
    found, problems = translated(server(), pod("a", metadata={"annotations": notes}))
    assert found == ({} if events is None else {"default/a": events})
    assert not problems


def test_a_pod_goes_before_its_model_server(server, pod):
    """The ModelServer speaks for all of its Pods that say nothing."""
    of_all = server()
    of_all.metadata.annotations.update({EVENTS: "tcp://*:5557", REPLAY: "tcp://*:5558"})
    own = pod("b", metadata={"annotations": {EVENTS: "tcp://*:6000"}})
    found, _ = translated(of_all, pod("a"), own)
    assert found == {
        "default/a": routing.KvEvents(port=5557, replay_port=5558),
        "default/b": routing.KvEvents(port=6000, replay_port=5558),
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (EVENTS, "tcp://*"),
        (EVENTS, "ipc:///tmp/events"),
        (EVENTS, "tcp://*:0"),
        (EVENTS, "tcp://*:65530"),
        (REPLAY, "yes"),
        (RANKS, "0"),
        (RANKS, "65"),
        (RANKS, "00011111"),
        (RANKS, "many"),
    ],
)
def test_what_cannot_be_listened_to_is_a_problem(server, pod, name, value):
    """The endpoint serves all the same, and what its cache holds is believed."""
    notes = {EVENTS: "tcp://*:5557"} | {name: value}
    found, problems = translated(server(), pod("a", metadata={"annotations": notes}))
    assert found == {}
    (problem,) = problems
    assert problem.reason == "InvalidAnnotation"
    assert f"Pod default/a, metadata.annotations[{name}]" in problem.message
