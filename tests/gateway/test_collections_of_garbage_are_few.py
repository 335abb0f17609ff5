"""A burst of queued requests is not scanned by Python's garbage collector again and again."""

import gc

import pytest

from headgate import garbage


@pytest.fixture
def collections():
    """The collections that begin, in a process that has spared what there was."""
    begun, thresholds = [], gc.get_threshold()

    def note(phase, info):
        if phase == "start":
            begun.append(info["generation"])

    garbage.spare_what_there_is()
    gc.callbacks.append(note)
    yield begun
    gc.callbacks.remove(note)
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_thousands_of_new_objects_begin_none(collections):
    """Where Python itself would begin with the 701st."""
    kept = [[number] for number in range(8000)]
    assert not collections
    assert len(kept) == 8000


def test_garbage_does_not_pile_up(collections):
    """They are rare, and not gone."""
    kept = [[number] for number in range(25_000)]
    assert collections
    assert len(kept) == 25_000
