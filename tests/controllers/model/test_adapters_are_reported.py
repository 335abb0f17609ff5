"""What the status tells of each adapter of a backend."""

import msgspec
import pytest

from headgate import api
from headgate.controllers.model import duties, names
from headgate.controllers.model.observed import KnownPod, KnownPodStatus, reduced_pod
from headgate.controllers.model.sidecars import Adapter
from headgate.controllers.model.status import BackendState

LAW = {"name": "law", "artifactURL": "hf://org/law"}
ART = {"name": "art", "artifactURL": "pvc://weights/art"}
OPENED = [{"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "1"}]


@pytest.fixture
def pod():
    """Makes a Pod as a workload would, ready or with a container that ended."""

    def make(children, *, ready: bool = True, failing: str = "") -> KnownPod:
        template = children.children[0].manifest["spec"]["template"]["metadata"]
        ended = api.ContainerState(terminated=api.ContainerStateTerminated(exit_code=1, message="no such"))
        running = api.ContainerState(running=api.ContainerStateRunning(started_at="2026-01-01T00:00:00Z"))
        status = KnownPodStatus(
            pod_ip="10.0.0.1",
            conditions=[api.Condition(type="Ready", status=str(ready))],
            init_container_statuses=[api.ContainerStatus(name="runtime", state=running)]
            + [api.ContainerStatus(name=name, state=ended) for name in [failing] if name],
        )
        metadata = {"name": "p", "uid": "p", **template}
        return reduced_pod(KnownPod(metadata=msgspec.convert(metadata, api.ObjectMeta), status=status))

    return make


def reported(children, *pods):
    state = BackendState("b", 1, 1, 1)
    found = duties.reported(state, children, pods, lambda _: (), lambda _: ())
    return {each.name: (each.state, each.loaded, each.error) for each in found.adapters}


def test_a_ready_engine_has_those_of_its_start(made, backend, pod):
    """Pods of a former revision have others, which shows while a rollout lasts."""
    before = made(backend(loraAdapters=[LAW]))
    after = made(backend(loraAdapters=[LAW, ART]))
    assert reported(before, pod(before)) == {"law": ("Loaded", 1, "")}
    assert reported(after, pod(before)) == {"law": ("Loaded", 1, ""), "art": ("Loading", 0, "")}
    assert reported(after, pod(after), pod(after)) == {"law": ("Loaded", 2, ""), "art": ("Loaded", 2, "")}
    other = made(backend(loraAdapters=[{**LAW, "artifactURL": "hf://org/other"}]))
    assert reported(other, pod(before)) == {"law": ("Loading", 0, "")}


def test_none_is_loaded_before_a_pod_is_ready(made, backend, pod):
    children = made(backend(loraAdapters=[LAW]))
    assert reported(children, pod(children, ready=False)) == {"law": ("Loading", 0, "")}
    assert reported(children) == {"law": ("Loading", 0, "")}


def test_a_download_that_fails_is_an_error_of_its_adapter(made, backend, pod):
    children = made(backend(loraAdapters=[ART, LAW]))
    failing = pod(children, ready=False, failing="adapter-1")
    states = reported(children, failing)
    assert states["art"] == ("Loading", 0, "")
    assert states["law"] == ("Failed", 0, "Pod p: no such (ended with exit code 1)")


def test_an_annotation_that_somebody_changed_says_nothing(made, backend, pod):
    children = made(backend(loraAdapters=[LAW]))
    broken = pod(children)
    annotations = {names.ADAPTERS: "[1"}
    metadata = msgspec.structs.replace(broken.metadata, annotations=annotations)
    assert reported(children, msgspec.structs.replace(broken, metadata=metadata)) == {
        "law": ("Loading", 0, "")
    }


def test_sidecars_know_where_adapters_of_claims_are(made, backend, pod):
    """A claim is not mounted at its name if that is a directory of images."""
    children = made(backend(loraAdapters=[LAW, ART], env=OPENED))
    model = msgspec.convert(
        {"metadata": {"name": "m", "uid": "u"}, "spec": {"backends": [backend()]}}, api.Model
    )
    [duty] = duties.duties_of(model, children, [pod(children)], "token").values()
    assert duty.adapters == (
        Adapter("law", "hf://org/law"),
        Adapter("art", "pvc://weights/art", "/mnt/weights/art"),
    )
