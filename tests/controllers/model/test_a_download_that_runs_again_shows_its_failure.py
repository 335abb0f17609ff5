"""What a download failed with is shown until it is known to get on."""

import msgspec
import pytest

from headgate.controllers.model import duties, troubles
from headgate.controllers.model.children import Children
from headgate.controllers.model.observed import KnownPod
from headgate.controllers.model.sidecars import Download
from headgate.controllers.model.status import BackendState

FAILED = {"terminated": {"exitCode": 21, "reason": "Error", "message": "NotFound: no repository"}}
POD = {
    "metadata": {"name": "p", "labels": {"registry.volcano.sh/backend-name": "b"}},
    "status": {
        "initContainerStatuses": [{"name": "download", "state": {"running": {}}, "lastState": FAILED}]
    },
}


@pytest.mark.parametrize(
    ("downloads", "reason", "told"),
    [
        ([], troubles.DOWNLOAD_FAILED, "NotFound: no repository (ended with exit code 21); it runs again"),
        ([Download("d", "Listing")], troubles.DOWNLOAD_FAILED, "it runs again"),
        ([Download("d", "Downloading", 1, 2)], troubles.DOWNLOADING, "(50 %)"),
    ],
)
def test_until_there_is_progress(downloads, reason, told):
    pod = msgspec.convert(POD, KnownPod)
    state = BackendState("b", 1, 1, 0, troubles.of_pod(pod))
    state = duties.reported(state, Children(()), [pod], lambda _: (), lambda _: downloads)
    assert state.trouble.reason == reason
    assert told in state.trouble.message


def test_words_of_a_container_are_not_taken_for_ours():
    """One that waits for its next run does not run, whatever it said last."""
    said = {"terminated": {"exitCode": 1, "message": "broken; it runs again"}}
    waiting = {"name": "download", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": said}
    pod = msgspec.convert(
        {"metadata": {"name": "p"}, "status": {"initContainerStatuses": [waiting]}}, KnownPod
    )
    trouble = troubles.of_pod(pod)
    assert trouble is not None
    assert not trouble.runs_again
