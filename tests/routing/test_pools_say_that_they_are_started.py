"""Annotations say that a pool is started by its requests, how long that takes, and why it failed."""

import msgspec
import pytest

from headgate import routing
from headgate.api import marks

FIELD = "metadata.annotations[headgate.dev/scale-from-zero]"


def servers_start(kit, **notes):
    """The start of a ModelServer with these annotations, and the problems."""
    server = kit.server()
    notes = {f"headgate.dev/{name.replace('_', '-')}": value for name, value in notes.items()}
    metadata = msgspec.structs.replace(server.metadata, annotations=notes)
    snapshot = kit.translated(msgspec.structs.replace(server, metadata=metadata))
    return snapshot.pools[kit.ref(kind="ModelServer")].start, snapshot.problems


def test_no_pool_is_started_unless_it_says_so(kit):
    """Even if a start is said to have failed."""
    assert servers_start(kit, start_failed="no GPU") == (None, ())


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("0", 0.0), ("12.5", 12.5), ("86400", 86400.0)])
def test_the_expected_time_is_in_seconds(kit, text, seconds):
    """With fractions, up to a day."""
    assert servers_start(kit, scale_from_zero=text) == (routing.Start(seconds), ())


def test_inference_pools_have_the_same_annotations(kit):
    """In both versions of the kind."""
    notes = {marks.SCALE_FROM_ZERO: "90", marks.START_FAILED: "no GPU"}
    snapshot = kit.translated(kit.pool(notes=notes))
    assert snapshot.pools[kit.ref()].start == routing.Start(90.0, "no GPU")


@pytest.mark.parametrize("text", ["", "soon", "-1", "1e3", "nan", "inf", "90s", "86401", "1" * 4000, "٣"])
def test_anything_else_is_a_problem_and_counts_for_nothing(kit, text):
    """The message says what to write, and is short."""
    start, (problem,) = servers_start(kit, scale_from_zero=text)
    assert start is None
    assert (problem.field, problem.reason) == (FIELD, "InvalidAnnotation")
    assert "is not a number of seconds from 0 to 86400, such as 90" in problem.message
    assert len(problem.message) < 300


def test_the_failure_is_plain_text_of_bounded_length(kit):
    """It goes into responses and logs as it is."""
    start, _ = servers_start(
        kit, scale_from_zero="90", start_failed="no\r\nGPU:\x1b[31m red\u2028 \u202e " * 100
    )
    assert start.failure.startswith("no GPU: [31m red no GPU:")
    assert start.failure.endswith("...")
    assert len(start.failure) == 256
    assert start.failure.isprintable()


def test_a_ready_pod_changes_nothing_of_it(kit):
    """The pool is started again when it has been scaled to zero again."""
    snapshot = kit.translated(kit.pool(notes={marks.SCALE_FROM_ZERO: "90"}), kit.pod("p"))
    pool = snapshot.pools[kit.ref()]
    assert (len(pool.endpoints), pool.start) == (1, routing.Start(90.0))
