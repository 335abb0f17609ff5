"""What the sidecars of a Model's Pods should be told and asked, and what they said in terms of its status."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal

from headgate import api
from headgate.api.kthena_registry import ModelAdapterStatus
from headgate.controllers.model import names, troubles
from headgate.controllers.model.children import Children
from headgate.controllers.model.observed import KnownPod
from headgate.controllers.model.pods import ENGINE, RUNTIME, StartAdapter
from headgate.controllers.model.sidecar_loop import FAILED, LOADED, LOADING, Duty
from headgate.controllers.model.sidecars import Adapter, AdapterState, Address, Download
from headgate.controllers.model.status import BackendState
from headgate.controllers.model.troubles import Trouble

MOST_DOWNLOADS = 4
"""Pods of a backend that are asked how far their downloads are, as most share what they download."""
_GIGABYTE = 1e9


def duties_of(
    model: api.Model, children: Children, pods: Collection[KnownPod], token: str
) -> dict[str, Duty]:
    """By the UIDs of Pods; none for Pods whose sidecar does not run or that need nothing."""
    found = {}
    for backend in model.spec.backends:
        sidecar = children.sidecars.get(backend.name)
        if sidecar is None or not token:
            continue
        adapters = None
        if sidecar.adapters is not None:
            adapters = tuple(Adapter(*each) for each in sidecar.adapters)
        asked = 0
        for pod in of_backend(backend.name, pods):
            runs = troubles.runs(pod, RUNTIME), troubles.runs(pod, ENGINE)
            downloads = troubles.downloads(pod) and asked < MOST_DOWNLOADS
            asked += downloads
            if runs[0] is None or not pod.status.pod_ip or (adapters is None and not downloads):
                continue
            address = Address(pod.status.pod_ip, sidecar.port)
            current = (runs[0], runs[1] or "")
            mine = adapters if _takes_adapters(pod) else None
            found[pod.metadata.uid] = Duty(
                model.metadata.uid, address, token, mine, current, pod.is_ready, downloads
            )
    return found


def reported(
    state: BackendState,
    children: Children,
    pods: Collection[KnownPod],
    states_of: Callable[[str], Sequence[AdapterState]],
    downloads_of: Callable[[str], Sequence[Download]],
) -> BackendState:
    """The state of a backend with what its sidecars said."""
    own = of_backend(state.name, pods)
    if state.trouble is None or _may_have_recovered(state.trouble):
        found = [told for pod in own if (told := _downloading(pod, downloads_of(pod.metadata.uid)))]
        if state.trouble is not None:
            found = [each for each in found if each.has_progress]
        state = state._replace(trouble=troubles.worst(found) or state.trouble)
    sidecar = children.sidecars.get(state.name)
    if sidecar is None:
        return state
    ready = [pod for pod in own if pod.is_ready and not pod.is_leaving and _takes_adapters(pod)]
    if sidecar.adapters is not None:
        wanted = [each.name for each in sidecar.adapters]
        said = [(pod.metadata.name, states_of(pod.metadata.uid)) for pod in ready]
        return state._replace(adapters=[_adapter(name, said) for name in wanted])
    every = [pod for pod in own if not pod.is_leaving and _takes_adapters(pod)]
    started = [_started(each, every) for each in children.at_start.get(state.name, ())]
    return state._replace(adapters=started)


def of_backend(name: str, pods: Iterable[KnownPod]) -> list[KnownPod]:
    """The Pods of the backend with this name, sorted by theirs."""
    label = names.shortened(name, names.LONGEST_LABEL)
    own = [pod for pod in pods if pod.metadata.labels.get(names.BACKEND_NAME) == label]
    return sorted(own, key=lambda pod: pod.metadata.name)


def _takes_adapters(pod: KnownPod) -> bool:
    return names.ENTRY in pod.metadata.labels


def _adapter(name: str, said: Sequence[tuple[str, Sequence[AdapterState]]]) -> ModelAdapterStatus:
    loaded, error, failed = 0, "", False
    for pod, states in said:
        own = next((each for each in states if each.name == name), None)
        if own is None:
            continue
        loaded += own.state == LOADED
        failed = failed or own.state == FAILED
        if own.error and not error:
            error = f"Pod {pod}: {troubles.plain(own.error)}"
    if failed:
        return ModelAdapterStatus(name=name, state=FAILED, loaded=loaded, error=error)
    is_loaded = bool(said) and loaded == len(said)
    return ModelAdapterStatus(name=name, state=LOADED if is_loaded else LOADING, loaded=loaded, error=error)


def _started(adapter: StartAdapter, pods: Sequence[KnownPod]) -> ModelAdapterStatus:
    """An adapter that engines load at their start, before they are ready."""
    having = [pod for pod in pods if pod.start_adapters.get(adapter.name) == adapter.digest]
    loaded = sum(pod.is_ready for pod in having)
    for pod in having:
        if not pod.is_ready and (why := troubles.of_container(pod, adapter.container)):
            error = f"Pod {pod.metadata.name}: {why}"
            return ModelAdapterStatus(name=adapter.name, state=FAILED, loaded=loaded, error=error)
    ready = sum(pod.is_ready for pod in pods)
    state: Literal["Loaded", "Loading"] = LOADED if ready and loaded == ready else LOADING
    return ModelAdapterStatus(name=adapter.name, state=state, loaded=loaded)


def _may_have_recovered(trouble: Trouble) -> bool:
    """Whether it is a download that failed before, and runs again."""
    return trouble.reason == troubles.DOWNLOAD_FAILED and trouble.runs_again


def _downloading(pod: KnownPod, downloads: Sequence[Download]) -> Trouble | None:
    """That a download runs, and how far it is once that is known."""
    if not troubles.downloads(pod):
        return None
    total = sum(each.bytes_total for each in downloads)
    done = sum(each.bytes_done for each in downloads)
    told = f"Pod {pod.metadata.name}: downloading"
    if total > 0:
        told += f", {done / _GIGABYTE:.1f} of {total / _GIGABYTE:.1f} GB ({100 * done // total} %)"
    problem = next((each.problem for each in downloads if each.problem), "")
    if problem:
        told += f"; it tries again after a failure: {troubles.plain(problem)}"
    return Trouble(troubles.DOWNLOADING, told, has_progress=total > 0)
