"""Finds where an engine publishes KV events: annotations of its Pod or its pool, or its arguments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from headgate import api
from headgate.api import core, marks
from headgate.routing.snapshot import KvEvents

_ADDRESS = re.compile(r"(?:tcp://[^/:\s]*(?:\[[0-9a-fA-F:]*\])?:)?([0-9]{1,5})")
_RANKS = re.compile(r"[1-9][0-9]?")
OFF = "off"


class InvalidEventsAnnotationError(ValueError):
    """An invalid annotation; `annotation` names it."""

    def __init__(self, annotation: str, message: str) -> None:
        super().__init__(message)
        self.annotation = annotation


def kv_events(of_pool: Mapping[str, str], pod: api.Pod) -> KvEvents | None:
    """From the annotations of the Pod, or else of its pool, or else the engine's arguments; None if there are
    none.

    Raises InvalidEventsAnnotationError.
    """
    notes = {**of_pool, **pod.metadata.annotations}
    if marks.KV_EVENTS not in notes:
        return events_by_arguments(pod.spec.containers)
    if notes[marks.KV_EVENTS] == OFF:
        return None
    port = _port(notes, marks.KV_EVENTS)
    if port is None:
        return None
    ranks = notes.get(marks.KV_EVENTS_RANKS, "1")
    if not _RANKS.fullmatch(ranks) or int(ranks) > MAX_RANKS:
        raise InvalidEventsAnnotationError(
            marks.KV_EVENTS_RANKS, f"{ranks[:64]!r} is not a number of ranks from 1 to {MAX_RANKS}"
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
            annotation, f"{text[:64]!r} has no port: write it as the engine is given it, like tcp://*:5557"
        )
    return port


# KV events by the arguments of the container.
#
# vLLM and SGLang have one option with JSON. Only simple cases are read: an address that the engine binds, and
# the number of ranks in its options. If ranks are spread over processes or Pods, annotations must specify the
# port of each.
MAX_CHARACTERS = 32 * 1024
"""Limit for all arguments of a container: one may be a shell script."""
MAX_RANKS = 64
LAST_PORT = 65_535 - MAX_RANKS

_OPTION = "--kv-events-config"
_NAMED = re.compile(r"--kv[-_]events[-_]config\b")
_LISTENS = re.compile(r"tcp://(?:\*|\[?::\]?|\$[({]?POD_IP[)}]?):([0-9]{1,5})")
"""Simulated engines that share a machine bind the Pod's own address."""
_RANK_OPTIONS = frozenset({"--data-parallel-size", "-dp", "--dp-size", "--dp"})


class _Config(msgspec.Struct):
    enable_kv_cache_events: bool | None = None
    publisher: str | None = None
    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None

    @property
    def is_on(self) -> bool:
        """Whether events are published. vLLM needs an explicit flag; for SGLang the name of the publisher is
        enough."""
        enabled = self.enable_kv_cache_events
        return self.publisher in (None, "zmq") and (enabled or (enabled is None and bool(self.publisher)))


_decode = msgspec.json.Decoder(_Config).decode


def events_by_arguments(containers: Sequence[core.Container]) -> KvEvents | None:
    """From the first container with the option; None if there is none, or if it is not a simple case."""
    for container in containers:
        words = (*container.command, *container.args)
        if any(map(_NAMED.search, words)):
            return _published(words) if sum(map(len, words)) <= MAX_CHARACTERS else None
    return None


@lru_cache(maxsize=256)
def _published(words: tuple[str, ...]) -> KvEvents | None:
    """Where an engine with these arguments publishes. Cached, because all Pods of a Deployment have the same
    arguments."""
    given = list(_options(words))
    options = dict(given)
    try:
        config = _decode(options.get(_OPTION, ""))
    except (msgspec.DecodeError, RecursionError):
        return None
    if [name for name, _ in given].count(_OPTION) > 1:
        return None  # a script that starts several engines
    port, ranks = _port_of_address(config.endpoint), _ranks(options)
    if not config.is_on or port is None or ranks is None:
        return None
    return KvEvents(port=port, replay_port=_port_of_address(config.replay_endpoint or ""), ranks=ranks)


def _options(words: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    each = list(_split(words))
    for n, word in enumerate(each):
        if word.startswith("-"):
            name, has_value, value = word.partition("=")
            following = each[n + 1] if n + 1 < len(each) else ""
            yield name.replace("_", "-"), value if has_value else following


def _split(words: tuple[str, ...]) -> Iterator[str]:
    """The arguments, with a shell script split into words."""
    for word in words:
        if not _NAMED.search(word) or _NAMED.match(word):
            yield word
        else:
            try:
                yield from shlex.split(word.replace("\\\n", " "))
            except ValueError:  # an unclosed quote: the shell would reject it, too
                continue


def _port_of_address(address: str) -> int | None:
    found = _LISTENS.fullmatch(address)
    port = int(found[1]) if found is not None else 0
    return port if 0 < port <= LAST_PORT else None


def _ranks(options: dict[str, str]) -> int | None:
    """How many ranks publish; None if that is not a single number."""
    told = {value for name, value in options.items() if name in _RANK_OPTIONS}
    if (
        any(name.startswith("--data-parallel") and name not in _RANK_OPTIONS for name in options)
        or len(told) > 1
    ):
        return None
    text = next(iter(told), "1")
    ranks = int(text) if text.isascii() and text.isdigit() and len(text) < 4 else 0
    return ranks if 0 < ranks <= MAX_RANKS else None
