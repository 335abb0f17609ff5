"""Turns the Pods that a pool selects into endpoints, and reads how to reach them.

It is the same for pools of every dialect: ready Pods with an address, in the pool's own namespace, with all
labels of its selector. An invalid annotation of a Pod is a problem of the pool, and does not affect other
Pods.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headgate import api
from headgate.api import marks
from headgate.api.marks import Address
from headgate.routing import kv_events
from headgate.routing.problems import INVALID_ADDRESS, INVALID_ANNOTATION, Report
from headgate.routing.snapshot import Endpoint, KvEvents, MetricsPage

Selector = tuple[str, Mapping[str, str]]
"""A namespace, and labels that Pods there must have."""


def is_ready(pod: api.Pod) -> bool:
    """Whether the Pod may serve."""
    return pod.ready and bool(pod.status.pod_ip)


def facts(pod: api.Pod) -> object:
    """Everything that routing reads of a ready Pod."""
    return pod.status.pod_ip, pod.metadata.labels, pod.metadata.annotations, pod.spec.containers


def address(pod: api.Pod) -> Address:
    """The address of the Pod, with a port if its annotation has one. Raises ValueError if the annotation is
    invalid."""
    given = pod.metadata.annotations.get(marks.ADDRESS)
    return Address.parse(given) if given else Address(pod.status.pod_ip)


def own_port(pod: api.Pod, at: Address) -> int | None:
    """The Pod's own port, which takes precedence over its pool's."""
    return at.port or port_number(pod.metadata.annotations.get(marks.PORT, ""))


def port_number(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) <= 5
    return int(text) if is_number and 0 < int(text) < 65536 else None


_PREFIX = re.compile(r"(/[-._~%!$&'()*+,;=:@A-Za-z0-9]+)+")
_MAX_PREFIX_CHARACTERS = 255


def prefix(pod: api.Pod) -> str:
    """The path in front of those of the engine; empty for almost all Pods. Raises ValueError if the
    annotation is invalid."""
    given = pod.metadata.annotations.get(marks.PATH_PREFIX, "")
    if given and not is_prefix(given):
        told = f"{given[:64]!r} is not a prefix: write a path such as /llama, without / at its end"
        raise InvalidPrefixError(told)
    return given


def is_prefix(text: str) -> bool:
    """Whether it can be put in front of the path of a request."""
    return (
        len(text) <= _MAX_PREFIX_CHARACTERS
        and _PREFIX.fullmatch(text) is not None
        and not {".", ".."} & set(text.split("/"))
    )


class InvalidPrefixError(ValueError):
    """An invalid prefix of paths."""


def report_address(pod: api.Pod, error: ValueError, field: str, report: Report) -> None:
    annotation = marks.PATH_PREFIX if isinstance(error, InvalidPrefixError) else marks.ADDRESS
    report(field, INVALID_ADDRESS, of_pod(pod, annotation, str(error)))


def of_pod(pod: api.Pod, annotation: str, message: str) -> str:
    """The message with its place, for a problem of the pool."""
    return f"Pod {pod.metadata.key}, metadata.annotations[{annotation}]: {message}"


def pages(
    pods: Mapping[Endpoint, api.Pod], field: str, report: Report
) -> Iterator[tuple[Endpoint, MetricsPage]]:
    """Metrics pages of endpoints whose Pods specify one. `field` selects the Pods."""
    for endpoint, pod in pods.items():
        try:
            page = metrics_page(pod)
        except InvalidPageError as error:
            report(field, INVALID_ANNOTATION, of_pod(pod, error.annotation, str(error)))
            continue
        if page is not None:
            yield endpoint, page


def events(
    notes: Mapping[str, str], pods: Mapping[Endpoint, api.Pod], field: str, report: Report
) -> Iterator[tuple[Endpoint, KvEvents]]:
    """Where endpoints publish KV events; `notes` are annotations of their pool, for Pods without their
    own."""
    for endpoint, pod in pods.items():
        try:
            published = kv_events.kv_events(notes, pod)
        except kv_events.InvalidEventsAnnotationError as error:
            report(field, INVALID_ANNOTATION, of_pod(pod, error.annotation, str(error)))
            continue
        if published is not None:
            yield endpoint, published


# Location of an endpoint's metrics page: the annotations of its Pod that Prometheus users know.
_PATH = re.compile(r"/[!-~]{0,1023}")
_PORT = re.compile(r"[0-9]{1,5}")


class InvalidPageError(ValueError):
    """An invalid annotation; `annotation` names it."""

    def __init__(self, annotation: str, message: str) -> None:
        super().__init__(message)
        self.annotation = annotation


def metrics_page(pod: api.Pod) -> MetricsPage | None:
    """The page that the Pod specifies; None if it has no such annotations. Raises InvalidPageError.

    If the Pod has its own serving port or address, the metrics port of its template does not apply to it.
    """
    notes = pod.metadata.annotations
    is_elsewhere = marks.PORT in notes or marks.ADDRESS in notes
    port = None if is_elsewhere else _port(notes.get(marks.METRICS_PORT, ""))
    path = notes.get(marks.METRICS_PATH, "")
    if path and not is_page_path(path):
        raise InvalidPageError(
            marks.METRICS_PATH, f"{path[:64]!r} is not a path: it must begin with / and have no spaces"
        )
    scheme = notes.get(marks.METRICS_SCHEME, "")
    if scheme not in ("", "http", "https"):
        raise InvalidPageError(marks.METRICS_SCHEME, f"{scheme[:64]!r} is neither http nor https")
    page = MetricsPage(port=port, path=path, is_https=scheme == "https" if scheme else None)
    return None if page == MetricsPage() else page


def is_page_path(path: str) -> bool:
    """Whether it can be requested as it is."""
    return _PATH.fullmatch(path) is not None


def _port(text: str) -> int | None:
    if not text:
        return None
    if not _PORT.fullmatch(text) or not 0 < int(text) < 65_536:
        raise InvalidPageError(
            marks.METRICS_PORT, f"{text[:64]!r} is not a port: it must be a number from 1 to 65535"
        )
    return int(text)
