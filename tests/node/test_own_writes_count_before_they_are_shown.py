"""A controller counts what it wrote, although its informer lags behind."""

from headgate import api
from headgate.node.workloads import FORGET_AFTER_S, Overlay


def pod(uid: str, generation: int = 0) -> api.Pod:
    return api.Pod(metadata=api.ObjectMeta(name=uid, uid=uid, generation=generation))


def test_a_created_object_counts_at_once_and_once():
    """It is there before the informer shows it, and not twice after."""
    overlay: Overlay[api.Pod] = Overlay(lambda: 0.0)
    overlay.wrote(pod("a"))
    assert [each.metadata.uid for each in overlay.over([])] == ["a"]
    assert [each.metadata.uid for each in overlay.over([pod("a")])] == ["a"]
    assert overlay.over([]) == []


def test_a_removed_object_no_longer_counts():
    """It is gone while the informer still shows it, and forgotten when the informer agrees."""
    overlay: Overlay[api.Pod] = Overlay(lambda: 0.0)
    overlay.removed("a")
    assert overlay.over([pod("a")]) == []
    assert overlay.pending == 1
    overlay.over([])
    assert overlay.pending == 0


def test_the_newer_generation_wins():
    """A change of ours counts until the informer shows it or something newer."""
    overlay: Overlay[api.Pod] = Overlay(lambda: 0.0)
    overlay.wrote(pod("a", 2))
    assert overlay.over([pod("a", 1)])[0].metadata.generation == 2
    assert overlay.over([pod("a", 3)])[0].metadata.generation == 3
    assert overlay.pending == 0


def test_what_is_never_shown_is_forgotten():
    """An object that came and went unseen doesn't count for ever."""
    now = 0.0
    overlay: Overlay[api.Pod] = Overlay(lambda: now)
    overlay.wrote(pod("a"))
    now = FORGET_AFTER_S
    assert overlay.over([]) == []
