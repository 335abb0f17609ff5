"""When a hook may end, by what one look after another shows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.runtime.drain import SILENT_S, UNREADABLE_S, Judge

ENDS = {"idle": (1.0, "idle"), "refused": (1.0, "gone"), "silent": (SILENT_S, "gone")} | {
    "unreadable": (UNREADABLE_S, "unknown")
}


def judged(looks):
    """The outcome after looks with the seconds until the next one."""
    now = 0.0
    judge = Judge(lambda: now, quiet_s=1.0)
    for look, lasts_s in looks:
        judge.see(look)
        if judge.outcome is not None:
            return judge.outcome
        now += lasts_s
    return None


@pytest.mark.parametrize("look", ENDS)
def test_a_look_has_to_last(look):
    """Another one between begins the time anew."""
    lasts_s, outcome = ENDS[look]
    assert judged([(look, lasts_s), (look, 0)]) == outcome
    assert judged([(look, lasts_s * 0.9), (look, 0)]) is None
    assert judged([(look, lasts_s * 0.9), ("busy", lasts_s), (look, lasts_s * 0.9), (look, 0)]) is None


@given(st.lists(st.tuples(st.sampled_from([*ENDS, "busy"]), st.floats(0.01, 100.0)), max_size=30))
def test_a_busy_engine_never_ends_the_wait(looks):
    """The outcome is that of the last look, and the engine was not busy as long as it takes."""
    for end in range(len(looks)):
        outcome = judged(looks[: end + 1])
        if outcome is not None:
            lasts_s, expected = ENDS[looks[end][0]]
            assert outcome == expected
            same_s = 0.0
            for look, after_s in reversed(looks[:end]):
                if look != looks[end][0]:
                    break
                same_s += after_s
            assert same_s >= lasts_s * (1 - 1e-9)
            return
