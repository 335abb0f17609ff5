"""Unified names on the metrics page of an engine: what every engine has, under the same name.

The page is untrusted. Lines that are not valid in Prometheus' text format are left out, so that a scraper
never refuses the rest of the page. Samples of the engine are then repeated under the unified names, with
their labels, and the original names stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from headgate.engines.engine import Engine, MetricNames

Kind = Literal["counter", "gauge", "histogram"]

MAX_LINE_BYTES: Final = 16 * 1024
MAX_LINES: Final = 20_000
"""Lines of a page to read; the rest is dropped. Pages of real engines have a few thousand at most."""
MAX_COPIES: Final = 4096
"""Lines repeated under each unified name: an engine has a few hundred."""

_SUFFIXES: Final[Mapping[Kind, tuple[bytes, ...]]] = {
    "counter": (b"",),
    "gauge": (b"",),
    "histogram": (b"_bucket", b"_sum", b"_count"),
}
# These patterns do not backtrack.
_NAME = rb"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_LABEL = rb'[a-zA-Z_][a-zA-Z0-9_]*+[ \t]*+=[ \t]*+"(?:[^"\\]++|\\[\\"n])*+"[ \t]*+'
_VALUE = rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]{1,3}+)?|[+-]?Inf|NaN"
_SAMPLE = re.compile(
    rb"(%s)(?:[ \t]*+\{[ \t]*+((?:%s(?:,[ \t]*+|(?=\})))*+)\}[ \t]*+|[ \t]++)" % (_NAME, _LABEL)
    + rb"((?:%s)(?:[ \t]++-?[0-9]{1,18}+)?)[ \t]*+\Z" % _VALUE
)
_LABEL_NAME = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*+)[ \t]*+=[ \t]*+"(?:[^"\\]++|\\.)*+"')
_TYPE = re.compile(rb"# TYPE (%s) (counter|gauge|histogram|summary|untyped)[ \t]*+\Z" % _NAME)
_HELP = re.compile(rb"# HELP (%s)(?: (?:[^\\]++|\\[\\n])*+)?\Z" % _NAME)


class Unified(NamedTuple):
    """One family with a unified name."""

    name: str
    kind: Kind
    help: str


WAITING: Final = Unified("kthena:num_requests_waiting", "gauge", "Requests waiting in the engine's queue.")
GENERATED: Final = Unified("kthena:generation_tokens_total", "counter", "Tokens generated.")
TTFT: Final = Unified("kthena:time_to_first_token_seconds", "histogram", "Time to the first token.")
TPOT: Final = Unified(
    "kthena:time_per_output_token_seconds", "histogram", "Time per output token after the first."
)
LATENCY: Final = Unified("kthena:e2e_request_latency_seconds", "histogram", "Time from request to its end.")
FAMILIES: Final = (WAITING, GENERATED, TTFT, TPOT, LATENCY)

# Names of two families that no other part of Headgate reads.
_GENERATED: Final[Mapping[str, tuple[str, ...]]] = {
    "vLLM": ("vllm:generation_tokens_total",),
    "SGLang": ("sglang:generation_tokens_total", "sglang_generation_tokens_total"),
    "MindIE": ("generation_tokens_total",),
}
_LATENCY: Final[Mapping[str, tuple[str, ...]]] = {
    "vLLM": ("vllm:e2e_request_latency_seconds",),
    "SGLang": ("sglang:e2e_request_latency_seconds", "sglang_e2e_request_latency_seconds"),
    "TensorRT-LLM": ("trtllm_e2e_request_latency_seconds",),
    "MindIE": ("e2e_request_latency_seconds",),
}


class UnifiedPage(NamedTuple):
    """A page with unified names."""

    text: bytes
    dropped_lines: int
    """Lines of the engine that were left out, as they are not valid."""


def sources(engine: Engine) -> dict[Unified, Sequence[str]]:
    """The engine's names of each unified family, of which the first present counts; empty if it has none."""
    names = engine.metrics or MetricNames(waiting=(), running=(), kv_usage=())
    return {
        WAITING: names.waiting,
        GENERATED: _GENERATED.get(engine.name, ()),
        TTFT: names.ttft,
        TPOT: names.tpot,
        LATENCY: _LATENCY.get(engine.name, ()),
    }


def unify(page: bytes, engine: Engine, own: bytes = b"\n") -> UnifiedPage:
    """The valid lines of a page, followed by those with unified names. Takes a few ms for a real page.

    Lines whose name begins with `own` are dropped: they are reserved for the page that this becomes part of.
    """
    return _Unifying(engine, own).read(page)


class _Unifying:
    """One page, line by line."""

    def __init__(self, engine: Engine, own: bytes) -> None:
        self._own = own
        self._sources = sources(engine)
        self._copies: dict[bytes, list[bytes]] = {
            name.encode() + suffix: []
            for family, names in self._sources.items()
            for name in names
            for suffix in _SUFFIXES[family.kind]
        }
        """Of each sample name of a source: its lines after the name."""
        self._seen: set[bytes] = set()
        self._described: set[tuple[bytes, bytes]] = set()
        self._dropped = 0

    def read(self, page: bytes) -> UnifiedPage:
        given = page.split(b"\n", MAX_LINES)
        if len(given) > MAX_LINES:
            self._dropped += given.pop().count(b"\n") + 1
        lines = [line for line in given if self._keeps(line.removesuffix(b"\r"))]
        described = {name for _, name in self._described}
        for family, names in self._sources.items():
            unified = family.name.encode()
            names_of = {unified, *(unified + suffix for suffix in _SUFFIXES[family.kind])}
            if names_of.isdisjoint(self._seen | described):
                lines += self._copied(family, names)
        lines.append(b"")
        return UnifiedPage(b"\n".join(lines).replace(b"\r", b""), self._dropped)

    def _keeps(self, line: bytes) -> bool:
        """Whether the line stays."""
        if not line or line.isspace():
            return False
        if len(line) <= MAX_LINE_BYTES and _is_utf8(line):
            if line.startswith(b"#"):
                return self._keeps_comment(line)
            found = _SAMPLE.match(line)
            if found is not None and self._keeps_sample(found):
                return True
        self._dropped += 1
        return False

    def _keeps_comment(self, line: bytes) -> bool:
        """The type and the help of each family once, before its samples; other comments say nothing."""
        found = _TYPE.match(line) or _HELP.match(line)
        if found is None:
            self._dropped += line.startswith((b"# TYPE", b"# HELP"))
            return False
        key = line[2:6], found[1]
        is_first = key not in self._described and found[1] not in self._seen
        if not is_first or found[1].startswith(self._own):
            self._dropped += 1
            return False
        self._described.add(key)
        return True

    def _keeps_sample(self, found: re.Match[bytes]) -> bool:
        name, labels, value = found.groups(b"")
        if name.startswith(self._own) or b"\r" in labels:
            return False
        if labels.count(b"=") > 1:
            label_names = _LABEL_NAME.findall(labels)
            if len(set(label_names)) < len(label_names):
                return False
        self._seen.add(name)
        copies = self._copies.get(name)
        if copies is not None and len(copies) < MAX_COPIES:
            copies.append(b"{%s} %s" % (labels, value) if labels else b" " + value)
        return True

    def _copied(self, family: Unified, names: Sequence[str]) -> list[bytes]:
        """The lines of the first source that the page has."""
        suffixes = _SUFFIXES[family.kind]
        for name in names:
            copies = {suffix: self._copies[name.encode() + suffix] for suffix in suffixes}
            if copies[suffixes[0]]:
                unified = family.name.encode()
                head = [
                    f"# HELP {family.name} {family.help}".encode(),
                    f"# TYPE {family.name} {family.kind}".encode(),
                ]
                return head + [unified + suffix + rest for suffix in suffixes for rest in copies[suffix]]
        return []


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True
