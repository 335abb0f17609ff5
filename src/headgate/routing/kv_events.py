"""Where an engine publishes what is in its KV cache: annotations of its Pod or its pool, or its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headgate import api
from headgate.api import marks
from headgate.routing import engine_arguments
from headgate.routing.engine_arguments import LAST_PORT, MAX_RANKS
from headgate.routing.snapshot import KvEvents

_ADDRESS = re.compile(r"(?:tcp://[^/:\s]*(?:\[[0-9a-fA-F:]*\])?:)?([0-9]{1,5})")
_RANKS = re.compile(r"[1-9][0-9]?")
OFF = "off"


class InvalidEventsAnnotationError(ValueError):
    """An annotation that says nothing; `annotation` names it."""

    def __init__(self, annotation: str, message: str) -> None:
        super().__init__(message)
        self.annotation = annotation


def kv_events(of_pool: Mapping[str, str], pod: api.Pod) -> KvEvents | None:
    """What the annotations of the Pod say, or else those of its pool, or else the arguments of its engine;
    None if that is nothing.

    Raises InvalidEventsAnnotationError.
    """
    notes = {**of_pool, **pod.metadata.annotations}
    if marks.KV_EVENTS not in notes:
        return engine_arguments.kv_events(pod.spec.containers)
    if notes[marks.KV_EVENTS] == OFF:
        return None
    port = _port(notes, marks.KV_EVENTS)
    if port is None:
        return None
    ranks = notes.get(marks.KV_EVENTS_RANKS, "1")
    if not _RANKS.fullmatch(ranks) or int(ranks) > MAX_RANKS:
        raise InvalidEventsAnnotationError(
            marks.KV_EVENTS_RANKS, f"{ranks[:64]!r} is no number of ranks: 1 to {MAX_RANKS} are possible"
        )
    return KvEvents(port=port, replay_port=_port(notes, marks.KV_EVENTS_REPLAY), ranks=int(ranks))


def _port(notes: dict[str, str], annotation: str) -> int | None:
    text = notes.get(annotation, "")
    if not text:
        return None
    found = _ADDRESS.fullmatch(text)
    port = int(found[1]) if found is not None else 0
    if not 0 < port <= LAST_PORT:
        raise InvalidEventsAnnotationError(
            annotation, f"{text[:64]!r} names no port: it is like tcp://*:5557, as the engine is told"
        )
    return port
