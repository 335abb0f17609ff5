"""The access log: one line for each request, as text for people or as JSON for programs.

A line costs a few microseconds, as it is written for every request: what is the same for many requests is
put into words once, and the rest is formatted without an encoder. Whatever clients make up (paths, models,
identifiers) is escaped to printable ASCII, so that it can neither end a line nor steer a terminal.
"""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING

from headgate import routing
from headgate.gateway import trace
from headgate.gateway.access_fields import FIELDS
from headgate.telemetry import LineLog, LogClock

if TYPE_CHECKING:
    from headgate.flow.limits import Reservation
    from headgate.gateway.exchange import Exchange
    from headgate.gateway.handover import Handover
    from headgate.gateway.queueing.wait import Wait
    from headgate.gateway.refusals import Refusal
    from headgate.gateway.usage import Usage

SHOWN_CHARACTERS = 1024
"""Of a path, a model, or a message; what is longer is cut."""

SERVED = "served"
CLIENT = frozenset({"client_gone", "client_stalled"})
"""Outcomes of requests whose client did not wait for the end of the answer."""
_UPSTREAM = frozenset(
    {
        "endpoint_unreachable",
        "idle_timeout",
        "prefill_failed",
        "upstream_failed",
        "upstream_invalid",
        "upstream_lost",
        "upstream_timeout",
    }
)
"""Outcomes that an endpoint is the reason of."""
_GATEWAY = frozenset({"evicted", "evicted_priority", "evicted_queue_pressure", "queue_full", "queue_timeout"})
"""Outcomes with a status below 500 that no client is the reason of."""

_NOT_WAITED = '"duration_queued":0,"flow":null', '"dropped_reason":null'
_CACHED = 4096
_CACHED_CHARACTERS = 256
_PLAIN = re.compile(r"[!#-<>-\[\]-~]+")
"""What stands in the text form without quotes: printable, no space, quote, backslash or equals sign."""


class Words:
    """What the lines of all requests with the same decision and end have in common."""

    __slots__ = ("is_plain", "json_decision", "json_end", "text")

    def __init__(self, exchange: Exchange) -> None:
        decision, pool, match = exchange.decision, exchange.pool, exchange.decision.match
        model = decision.model or None
        route = match.route.name if match is not None else None
        rule = match.rule.name if match is not None else None
        server = pool.name if pool is not None else None
        status, outcome = exchange.status, exchange.outcome
        self.is_plain = origin(status, outcome) is None
        self.text = (
            f"{status} outcome={outcome} model={_word(model)} route={_word(route)} rule={_word(rule)}"
            f" pool={_word(server)}"
        )
        self.json_end = f'"status_code":{status},"outcome":"{outcome}"'
        decided = {
            "error_origin": origin(status, outcome),
            "model_name": _cut(model),
            "model_route": route,
            "route_rule": _cut(rule),
            "model_server": server,
            "backend_type": _backend_type(exchange),
            "backend_name": server,
            "upstream_model": _cut(decision.upstream_model) if server is not None else None,
            "stream": decision.stream,
        }
        self.json_decision = _json(decided)[1:-1]


def _backend_type(exchange: Exchange) -> str:
    if exchange.pool is None:
        return "unresolved"
    kind = exchange.pool.pool.key.kind
    return "model_server" if kind == routing.MODEL_SERVER else "inference_pool"


class AccessLog:
    """Makes the lines and gives them to a LineLog; `form` is "text" or "json"."""

    def __init__(self, lines: LineLog, form: str) -> None:
        self._lines = lines
        self._is_json = form == "json"
        self.add = lines.add
        self.line = self._json_line if self._is_json else self._text_line
        """Makes the line of a request that is over, of its words, its usage and the loop's time."""
        self._clock = LogClock()
        self._escaped_texts: dict[str, str] = {}
        self.flush = lines.flush

    def rejected(self, refusal: Refusal, address: str, target: bytes, now: float) -> None:
        """Writes the line of bytes that were no request, or of a connection beyond a limit."""
        path = target.decode("latin-1").partition("?")[0] or None
        timestamp = self._clock.at(now)
        source = origin(refusal.status, refusal.code)
        if not self._is_json:
            self.add(
                f'{timestamp} {address or "-"} "- {_escaped(path or "-")} -" {refusal.status}'
                f" outcome={refusal.code} origin={source} error={_escaped_quoted(refusal.message)}\n"
            )
            return
        line = dict.fromkeys((field.name for field in FIELDS), None) | {
            "timestamp": timestamp,
            "client_address": address,
            "path": _cut(path),
            "status_code": refusal.status,
            "outcome": refusal.code,
            "error": {"type": refusal.code, "message": _cut(refusal.message)},
            "error_origin": source,
            "backend_type": "unresolved",
            "stream": False,
            "upstream_attempts": 0,
            "attempts": [],
            **dict.fromkeys(("request_bytes", "response_bytes"), 0),
            **dict.fromkeys((field.name for field in FIELDS if field.name.startswith("duration_")), 0),
            "duration_time_to_first_token": None,
        }
        self.add(_json(line) + "\n")

    def statistics(self) -> dict[str, int]:
        return self._lines.statistics()

    def _escape(self, text: str) -> str:
        """The text as it stands between the quotes of JSON; kept, since most come again and again."""
        found = self._escaped_texts.get(text)
        if found is None:
            found = _escaped(text)
            if len(text) <= _CACHED_CHARACTERS:
                if len(self._escaped_texts) >= _CACHED:
                    self._escaped_texts.clear()
                self._escaped_texts[text] = found
        return found

    def _text_line(self, exchange: Exchange, words: Words, usage: Usage | None, now: float) -> str:
        request, load = exchange.request, exchange.load
        arrived, first = request.arrived_at, exchange.first_byte_at
        total = int((now - arrived) * 1e3 + 0.5)
        before = int((exchange.sent_at - arrived) * 1e3 + 0.5) if exchange.sent_at else total
        to_head = int((exchange.head_at - arrived) * 1e3 + 0.5) if exchange.head_at else total
        tokens = f"{usage.prompt}/{usage.completion}" if usage is not None else "-/-"
        ttft = f" ttft={int((first - arrived) * 1e3 + 0.5)}ms" if first and exchange.decision.stream else ""
        endpoint = self._escape(load.endpoint.name) if load is not None else "-"
        choice = exchange.choice
        expected = ""
        if choice is not None:
            expected = f" prompt={exchange.decision.scheduled.prompt_tokens} cached={choice.cached_tokens}"
            if choice.first_token_s is not None:
                expected += f" expected={int(choice.first_token_s * 1e3 + 0.5)}ms"
        version = "0" if request.is_http_1_0 else "1"
        trace_id = f" trace={trace.trace_id(request.traceparent) or '-'}" if request.traceparent else ""
        prefill = _prefill(exchange.handover) if exchange.handover is not None else ""
        limit = " limit={}/{}".format(*_limited(held, "-")) if (held := exchange.reservation) else ""
        waited = _waited(exchange.wait, now) if exchange.wait is not None else ""
        troubles = "" if words.is_plain and exchange.attempts == 1 else self._troubles(exchange, now)
        return (
            f'{self._clock.at(now)} {request.client_address or "-"} "{request.method.decode()}'
            f' {self._escape(request.path)} HTTP/1.{version}" {words.text}'
            f" endpoint={endpoint} attempts={exchange.attempts}{expected} tokens={tokens}{limit}"
            f" request_bytes={exchange.bytes_in} response_bytes={_sent_bytes(exchange)}{ttft}"
            f" total={total}ms({before}+{to_head - before}+{total - to_head})"
            f"{waited} id={exchange.request_id.decode()}{trace_id}{prefill}{troubles}\n"
        )

    def _troubles(self, exchange: Exchange, now: float) -> str:
        """What the text form tells only of requests that did not go well at once."""
        parts = []
        if source := origin(exchange.status, exchange.outcome):
            parts.append(f" origin={source}")
        if exchange.upstream_status:
            parts.append(f" upstream_status={exchange.upstream_status}")
        if exchange.failed_attempts:
            tried = ",".join(f"{name}:{why}:{ms}ms" for name, why, ms in exchange.tried(now))
            parts.append(f" tried={_word(tried)}")
        if exchange.error_message:
            parts.append(f" error={_escaped_quoted(exchange.error_message)}")
        return "".join(parts)

    def _json_line(self, exchange: Exchange, words: Words, usage: Usage | None, now: float) -> str:
        request, load = exchange.request, exchange.load
        arrived, first = request.arrived_at, exchange.first_byte_at
        total = int((now - arrived) * 1e3 + 0.5)
        before = int((exchange.sent_at - arrived) * 1e3 + 0.5) if exchange.sent_at else total
        to_head = int((exchange.head_at - arrived) * 1e3 + 0.5) if exchange.head_at else total
        ttft = int((first - arrived) * 1e3 + 0.5) if first and exchange.decision.stream else "null"
        pod = f'"{self._escape(load.endpoint.name)}"' if load is not None else "null"
        if exchange.failed_attempts is None and load is not None:
            ms = int((now - exchange.attempt_at) * 1e3 + 0.5)
            attempts = f'{{"endpoint":{pod},"outcome":"{exchange.outcome}","ms":{ms}}}'
        else:
            attempts = self._attempts_in_json(exchange, now)
        prefill = _json(exchange.handover.told()) if exchange.handover is not None else "null"
        error = self._error_in_json(exchange) if exchange.error_message else "null"
        choice = exchange.choice
        prompt, cached, expected_ms = "null", "null", "null"
        if choice is not None:
            prompt, cached = str(exchange.decision.scheduled.prompt_tokens), str(choice.cached_tokens)
            if choice.first_token_s is not None:
                expected_ms = str(int(choice.first_token_s * 1e3 + 0.5))
        held = exchange.reservation
        limit_in, limit_out = _limited(held, "null") if held is not None else ("null", "null")
        waited = _NOT_WAITED if exchange.wait is None else _waited_in_json(exchange.wait, now)
        tokens_in, tokens_out = (usage.prompt, usage.completion) if usage is not None else ("null", "null")
        return (
            f'{{"timestamp":"{self._clock.at(now)}","client_address":"{request.client_address}",'
            f'"method":"{request.method.decode()}","path":"{self._escape(request.path)}",'
            f'"protocol":"HTTP/1.{"0" if request.is_http_1_0 else "1"}",{words.json_end},"error":{error},'
            f'{words.json_decision},"selected_pod":{pod},'
            f'"upstream_status_code":{exchange.upstream_status or "null"},'
            f'"upstream_attempts":{exchange.attempts},"attempts":[{attempts}],"prefill":{prefill},'
            f'"expected_prompt_tokens":{prompt},"expected_cached_tokens":{cached},'
            f'"expected_time_to_first_token":{expected_ms},"input_tokens":{tokens_in},'
            f'"output_tokens":{tokens_out},"limit_input_tokens":{limit_in},"limit_output_tokens":{limit_out},'
            f'"request_bytes":{exchange.bytes_in},'
            f'"response_bytes":{_sent_bytes(exchange)},"duration_time_to_first_token":{ttft},'
            f'"duration_total":{total},"duration_request_processing":{before},'
            f'"duration_upstream_processing":{to_head - before},'
            f'"duration_response_processing":{total - to_head},{waited[0]},'
            f'"priority":{exchange.decision.scheduled.priority},{waited[1]},'
            f'"request_id":{encode_basestring_ascii(exchange.request_id.decode("latin-1"))},'
            f'"trace_id":{_trace_in_json(request.traceparent) if request.traceparent else "null"}}}\n'
        )

    def _attempts_in_json(self, exchange: Exchange, now: float) -> str:
        return ",".join(
            f'{{"endpoint":"{self._escape(name)}","outcome":"{why}","ms":{ms}}}'
            for name, why, ms in exchange.tried(now)
        )

    def _error_in_json(self, exchange: Exchange) -> str:
        return f'{{"type":"{exchange.outcome}","message":{_escaped_quoted(exchange.error_message)}}}'


def _sent_bytes(exchange: Exchange) -> int:
    """Of the body that the client has: the answer's, and what it heard while it waited."""
    return exchange.bytes_out if exchange.wait is None else exchange.bytes_out + exchange.wait.told_bytes


def _limited(held: Reservation, none: str) -> tuple[int | str, int | str]:
    """What was counted of input and output; `none` stands for a direction without a limit."""
    return (
        none if held.input is None else held.input_tokens,
        none if held.output is None else held.output_tokens,
    )


def _prefill(handover: Handover) -> str:
    """Where the prompt was prefilled, of the text form."""
    told = handover.told()
    parts = [told["decision"], told["endpoint"], f"{told['ms']}ms" if told["ms"] is not None else None]
    return f" prefill={_word(':'.join(str(part) for part in parts if part is not None))}"


def _waited(wait: Wait, now: float) -> str:
    """How long it had to wait for its turn, of the text form."""
    dropped = f" dropped={wait.dropped_reason}" if wait.dropped_reason else ""
    place = wait.place
    ms = int(wait.seconds(now) * 1e3 + 0.5)
    return f" queued={ms}ms flow={_word(place.flow)} priority={place.priority}{dropped}"


def _waited_in_json(wait: Wait, now: float) -> tuple[str, str]:
    """What stands before the priority, and behind it."""
    ms = int(wait.seconds(now) * 1e3 + 0.5)
    dropped = f'"{wait.dropped_reason}"' if wait.dropped_reason else "null"
    return f'"duration_queued":{ms},"flow":{_escaped_quoted(wait.place.flow)}', f'"dropped_reason":{dropped}'


def _trace_in_json(traceparent: bytes) -> str:
    found = trace.trace_id(traceparent)
    return f'"{found}"' if found else "null"


def origin(status: int, outcome: str) -> str | None:
    """Who is the reason of a failure; None for what is none."""
    if outcome == SERVED:
        return "upstream" if status >= 400 else None
    if outcome in _UPSTREAM:
        return "upstream"
    if outcome in CLIENT:
        return "client"
    # Below 400 the client has a stream that began before there was an answer, and that ended with an error.
    return "client" if 400 <= status < 500 and outcome not in _GATEWAY else "gateway"


def _escaped(text: str) -> str:
    """Printable ASCII, as between the quotes of JSON."""
    return _escaped_quoted(text)[1:-1]


def _escaped_quoted(text: str) -> str:
    return encode_basestring_ascii(text[:SHOWN_CHARACTERS]).replace("\x7f", r"\u007f")


def _word(text: str | None) -> str:
    """A value of the text form: as it is where that is one plain word, else in quotes; "-" for none."""
    if text is None:
        return "-"
    return text if len(text) <= SHOWN_CHARACTERS and _PLAIN.fullmatch(text) else _escaped_quoted(text)


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:SHOWN_CHARACTERS]


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":")).replace("\x7f", r"\u007f")
