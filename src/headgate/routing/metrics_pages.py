"""Where the metrics page of an endpoint is: the annotations of its Pod that Prometheus' users know."""

from __future__ import annotations

import re

from headgate import api
from headgate.api import marks
from headgate.routing.snapshot import MetricsPage

_PATH = re.compile(r"/[!-~]{0,1023}")
_PORT = re.compile(r"[0-9]{1,5}")


class InvalidPageError(ValueError):
    """An annotation that says nothing; `annotation` names it."""

    def __init__(self, annotation: str, message: str) -> None:
        super().__init__(message)
        self.annotation = annotation


def metrics_page(pod: api.Pod) -> MetricsPage | None:
    """What the Pod says; None if that is nothing. Raises InvalidPageError.

    Where the Pod is reached at a port of its own choice, the port of its template means no one of them.
    """
    notes = pod.metadata.annotations
    is_elsewhere = marks.PORT in notes or marks.ADDRESS in notes
    port = None if is_elsewhere else _port(notes.get(marks.METRICS_PORT, ""))
    path = notes.get(marks.METRICS_PATH, "")
    if path and not is_page_path(path):
        raise InvalidPageError(
            marks.METRICS_PATH, f"{path[:64]!r} is no path: it begins with / and has no blanks"
        )
    scheme = notes.get(marks.METRICS_SCHEME, "")
    if scheme not in ("", "http", "https"):
        raise InvalidPageError(marks.METRICS_SCHEME, f"{scheme[:64]!r} is neither http nor https")
    page = MetricsPage(port=port, path=path, is_https=scheme == "https" if scheme else None)
    return None if page == MetricsPage() else page


def is_page_path(path: str) -> bool:
    """Whether it can be asked for as it is."""
    return _PATH.fullmatch(path) is not None


def _port(text: str) -> int | None:
    if not text:
        return None
    if not _PORT.fullmatch(text) or not 0 < int(text) < 65_536:
        raise InvalidPageError(
            marks.METRICS_PORT, f"{text[:64]!r} is no port: a number from 1 to 65535 is needed"
        )
    return int(text)
