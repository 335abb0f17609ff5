"""The access log: one line per request, as text for people or JSON for programs.

A line costs only a few microseconds: parts that many requests share are formatted once, and the rest without
an encoder. Values from clients (paths, models, ids) are escaped to printable ASCII, so that they can neither
end a line nor control a terminal.
"""

from __future__ import annotations

from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Final, NamedTuple

from headgate.dataplane.records import log_text
from headgate.dataplane.records.access_fields import FIELDS
from headgate.dataplane.records.log_field_cache import LogFieldCache, origin
from headgate.requests.life import tried_by
from headgate.telemetry import LineLog, LogClock
from headgate.telemetry.tracing import context

if TYPE_CHECKING:
    from headgate.dataplane.records.served_request import LoggedRequest, ServedRequest
    from headgate.flow.limits import Reservation
    from headgate.requests.account import Account
    from headgate.requests.life import Life
    from headgate.requests.pairing import Pairing
    from headgate.requests.refusal import Refusal
    from headgate.requests.wait import Wait

Tokens = tuple[int, int]
"""Prompt tokens and response tokens."""

_NOT_WAITED: Final = '"duration_queued":0,"duration_start_wait":0,"flow":null', '"dropped_reason":null'
_CACHED: Final = 4096
_CACHED_CHARACTERS: Final = 256


class Forwarded(NamedTuple):
    """A request to a Service, or one that a filter or a fault answered, when it is over."""

    arrived_at: float
    address: str
    """Of the client."""
    line: str
    """The request line without the query, escaped."""
    request_id: bytes
    route: str | None
    service: str | None
    endpoint: str
    attempts: int
    status: int
    outcome: str
    bytes_in: int
    bytes_out: int
    error: str


class AccessLog:
    """Formats lines and adds them to a LineLog; `form` is "text" or "json"."""

    def __init__(self, lines: LineLog, form: str) -> None:
        self._lines = lines
        self._is_json = form == "json"
        self.add = lines.add
        self.line = self._json_line if self._is_json else self._text_line
        """Formats the line of a finished request from its cached fields, the engine's token counts, and the
        time."""
        self._clock = LogClock()
        self._escaped_texts: dict[str, str] = {}
        self._of_tenants: dict[str, str] = {}
        self.flush = lines.flush

    def rejected(self, refusal: Refusal, address: str, target: bytes, now: float) -> None:
        """Log a request that could not be parsed, or a connection beyond a limit."""
        path = target.decode("latin-1").partition("?")[0] or None
        timestamp = self._clock.at(now)
        source = origin(refusal.status, refusal.code)
        if not self._is_json:
            self.add(
                f'{timestamp} {address or "-"} "- {log_text.escaped(path or "-")} -" {refusal.status}'
                f" outcome={refusal.code} origin={source} error={log_text.quoted(refusal.message)}\n"
            )
            return
        line = dict.fromkeys((field.name for field in FIELDS), None) | {
            "timestamp": timestamp,
            "client_address": address,
            "path": log_text.cut(path),
            "status_code": refusal.status,
            "outcome": refusal.code,
            "error": {"type": refusal.code, "message": log_text.cut(refusal.message)},
            "error_origin": source,
            "backend_type": "unresolved",
            "stream": False,
            "upstream_attempts": 0,
            "fallbacks": [],
            "attempts": [],
            "request_bytes": 0,
            "response_bytes": len(refusal.body_at(target)),
            **dict.fromkeys((field.name for field in FIELDS if field.name.startswith("duration_")), 0),
            "duration_time_to_first_token": None,
        }
        self.add(log_text.to_json(line) + "\n")

    def forwarded(self, request: Forwarded, now: float) -> None:
        """Log a request by the Gateway API that had nothing to do with a model."""
        timestamp, total = self._clock.at(now), int((now - request.arrived_at) * 1e3 + 0.5)
        source = origin(request.status, request.outcome)
        if not self._is_json:
            error = f" origin={source} error={log_text.quoted(request.error)}" if request.error else ""
            self.add(
                f'{timestamp} {request.address or "-"} "{request.line}" {request.status}'
                f" outcome={request.outcome} route={log_text.word(request.route)}"
                f" pool={log_text.word(request.service)} endpoint={request.endpoint or '-'}"
                f" request_bytes={request.bytes_in} response_bytes={request.bytes_out} total={total}ms"
                f" id={request.request_id.decode()}{error}\n"
            )
            return
        method, path, protocol = request.line.split(" ", 2)
        line = dict.fromkeys((field.name for field in FIELDS), None) | {
            "timestamp": timestamp,
            "client_address": request.address,
            "method": method,
            "path": log_text.cut(path),
            "protocol": protocol,
            "status_code": request.status,
            "outcome": request.outcome,
            "error": {"type": request.outcome, "message": log_text.cut(request.error)}
            if request.error
            else None,
            "error_origin": source,
            "model_route": request.route,
            "model_server": request.service,
            "backend_type": "service" if request.service is not None else "unresolved",
            "backend_name": request.service,
            "stream": False,
            "selected_pod": request.endpoint or None,
            "upstream_attempts": request.attempts,
            "fallbacks": [],
            "attempts": [],
            "request_bytes": request.bytes_in,
            "response_bytes": request.bytes_out,
            **dict.fromkeys((field.name for field in FIELDS if field.name.startswith("duration_")), 0),
            "duration_total": total,
            "duration_time_to_first_token": None,
            "request_id": request.request_id.decode(),
        }
        self.add(log_text.to_json(line) + "\n")

    def statistics(self) -> dict[str, int]:
        return self._lines.statistics()

    def _escape(self, text: str) -> str:
        """Escape text for a JSON string; cached, since most values recur."""
        found = self._escaped_texts.get(text)
        if found is None:
            found = log_text.escaped(text)
            if len(text) <= _CACHED_CHARACTERS:
                if len(self._escaped_texts) >= _CACHED:
                    self._escaped_texts.clear()
                self._escaped_texts[text] = found
        return found

    def _of_tenant(self, name: str) -> str:
        """The field of a tenant in the text form; cached, since most recur."""
        found = self._of_tenants.get(name)
        if found is None:
            if len(self._of_tenants) >= _CACHED:
                self._of_tenants.clear()
            found = self._of_tenants[name] = f" tenant={log_text.word(name)}"
        return found

    def _text_line(
        self, ended: ServedRequest, words: LogFieldCache, tokens: Tokens | None, now: float
    ) -> str:
        request, life, account = ended.request, ended.life, ended.life.account
        load, choice = life.load, life.choice
        arrived, first = request.arrived_at, account.first_byte_at
        total = int((now - arrived) * 1e3 + 0.5)
        before = int((account.sent_at - arrived) * 1e3 + 0.5) if account.sent_at else total
        to_head = int((account.head_at - arrived) * 1e3 + 0.5) if account.head_at else total
        ttft = f" ttft={int((first - arrived) * 1e3 + 0.5)}ms" if first and life.decision.stream else ""
        endpoint = "-" if load is None else self._escape(load.endpoint.name)
        expected = ""
        if choice is not None:
            first_s = choice.first_token_s
            predicted = "" if first_s is None else f" expected={int(first_s * 1e3 + 0.5)}ms"
            prompt_tokens = life.decision.scheduled.prompt_tokens
            expected = f" prompt={prompt_tokens} cached={choice.cached_tokens}{predicted}"
        counted = "-/-" if tokens is None else f"{tokens[0]}/{tokens[1]}"
        limit = " limit={}/{}".format(*_limited(held, "-")) if (held := life.reservation) else ""
        sent_bytes, waited = account.bytes_out + account.refusal_bytes, ""
        if life.wait is not None:
            sent_bytes, waited = _sent_bytes(life), _waited(life.wait, now)
        tenant = "" if request.tenant is None else self._of_tenant(request.tenant.name)
        traced = request.traceparent or ((trace := request.trace) is not None and trace.is_kept)
        trace_id = f" trace={_trace_id(request)}" if traced else ""
        prefill = _prefill(life.pairing) if life.pairing is not None else ""
        is_plain = words.is_plain and account.attempts == 1 and (life.fallen is None or not life.fallen.hops)
        troubles = "" if is_plain else self._troubles(life, now)
        return (
            f'{self._clock.at(now)} {request.client_address or "-"} "{request.line}" {words.text}'
            f" endpoint={endpoint} attempts={account.attempts}{expected} tokens={counted}{limit}"
            f" request_bytes={account.bytes_in} response_bytes={sent_bytes}{ttft}"
            f" total={total}ms({before}+{to_head - before}+{total - to_head})"
            f"{waited}{tenant} id={ended.request_id.decode()}{trace_id}{prefill}{troubles}\n"
        )

    def _troubles(self, life: Life, now: float) -> str:
        """Fields that the text form has only for requests that failed or were retried."""
        account, parts = life.account, []
        if life.fallen is not None and life.fallen.hops:
            left = ",".join(f"{hop.model}:{hop.reason}" for hop in life.fallen.hops)
            parts.append(f" fallbacks={log_text.word(left)}")
        if source := origin(account.status, account.outcome):
            parts.append(f" origin={source}")
        if account.upstream_status:
            parts.append(f" upstream_status={account.upstream_status}")
        if account.failed_attempts:
            tried = ",".join(f"{name}:{why}:{ms}ms" for name, why, ms in tried_by(life, now))
            parts.append(f" tried={log_text.word(tried)}")
        if account.error_message:
            parts.append(f" error={log_text.quoted(account.error_message)}")
        return "".join(parts)

    def _json_line(
        self, ended: ServedRequest, words: LogFieldCache, tokens: Tokens | None, now: float
    ) -> str:
        request, life, account = ended.request, ended.life, ended.life.account
        attempt, load = life.attempt, life.load
        arrived, first = request.arrived_at, account.first_byte_at
        total = int((now - arrived) * 1e3 + 0.5)
        before = int((account.sent_at - arrived) * 1e3 + 0.5) if account.sent_at else total
        to_head = int((account.head_at - arrived) * 1e3 + 0.5) if account.head_at else total
        ttft = int((first - arrived) * 1e3 + 0.5) if first and life.decision.stream else "null"
        pod = f'"{self._escape(load.endpoint.name)}"' if load is not None else "null"
        if account.failed_attempts is None and load is not None and attempt is not None:
            ms = int((now - attempt.began_at) * 1e3 + 0.5)
            attempts = f'{{"endpoint":{pod},"outcome":"{account.outcome}","ms":{ms}}}'
        else:
            attempts = self._attempts_in_json(life, now)
        prefill = log_text.to_json(life.pairing.told()) if life.pairing is not None else "null"
        error = self._error_in_json(account) if account.error_message else "null"
        choice = life.choice
        prompt, cached, expected_ms = "null", "null", "null"
        if choice is not None:
            prompt, cached = str(life.decision.scheduled.prompt_tokens), str(choice.cached_tokens)
            if choice.first_token_s is not None:
                expected_ms = str(int(choice.first_token_s * 1e3 + 0.5))
        held = life.reservation
        limit_in, limit_out = _limited(held, "null") if held is not None else ("null", "null")
        traced = request.traceparent or ((trace := request.trace) is not None and trace.is_kept)
        waited = _NOT_WAITED if life.wait is None else _waited_in_json(life.wait, now)
        tokens_in, tokens_out = tokens if tokens is not None else ("null", "null")
        return (
            f'{{"timestamp":"{self._clock.at(now)}","client_address":"{request.client_address}",'
            f'"method":"{request.method.decode()}","path":"{self._escape(request.path)}",'
            f'"protocol":"HTTP/1.{"0" if request.is_http_1_0 else "1"}",{words.json_end},"error":{error},'
            f'{words.json_decision},"selected_pod":{pod},'
            f'"upstream_status_code":{account.upstream_status or "null"},'
            f'"upstream_attempts":{account.attempts},"fallbacks":{_fallbacks_in_json(life)},'
            f'"attempts":[{attempts}],"prefill":{prefill},'
            f'"expected_prompt_tokens":{prompt},"expected_cached_tokens":{cached},'
            f'"expected_time_to_first_token":{expected_ms},"input_tokens":{tokens_in},'
            f'"output_tokens":{tokens_out},"limit_input_tokens":{limit_in},"limit_output_tokens":{limit_out},'
            f'"request_bytes":{account.bytes_in},'
            f'"response_bytes":{_sent_bytes(life)},"duration_time_to_first_token":{ttft},'
            f'"duration_total":{total},"duration_request_processing":{before},'
            f'"duration_upstream_processing":{to_head - before},'
            f'"duration_response_processing":{total - to_head},{waited[0]},'
            f'"priority":{life.decision.scheduled.priority},{waited[1]},'
            f'"tenant":{"null" if request.tenant is None else log_text.quoted(request.tenant.name)},'
            f'"request_id":{encode_basestring_ascii(ended.request_id.decode("latin-1"))},'
            f'"trace_id":{_trace_in_json(request) if traced else "null"}}}\n'
        )

    def _attempts_in_json(self, life: Life, now: float) -> str:
        return ",".join(
            f'{{"endpoint":"{self._escape(name)}","outcome":"{why}","ms":{ms}}}'
            for name, why, ms in tried_by(life, now)
        )

    def _error_in_json(self, account: Account) -> str:
        return f'{{"type":"{account.outcome}","message":{log_text.quoted(account.error_message)}}}'


def _fallbacks_in_json(life: Life) -> str:
    if life.fallen is None:
        return "[]"
    hops = [
        {"model": log_text.cut(hop.model), "route": hop.route, "pool": hop.pool, "reason": hop.reason}
        for hop in life.fallen.hops
    ]
    return log_text.to_json(hops)


def _sent_bytes(life: Life) -> int:
    """Body bytes sent to the client: the response, and progress events while it was queued."""
    sent = life.account.bytes_out + life.account.refusal_bytes
    return sent if life.wait is None else sent + life.wait.told_bytes


def _limited(held: Reservation, none: str) -> tuple[int | str, int | str]:
    """Input and output tokens charged to the limit; `none` for a direction without one."""
    before_in, before_out = held.booked or (0, 0)
    return (
        none if held.input is None else before_in + held.input_tokens,
        none if held.output is None else before_out + held.output_tokens,
    )


def _prefill(pairing: Pairing) -> str:
    """Where the prompt was prefilled, in the text form."""
    told = pairing.told()
    parts = [told["decision"], told["endpoint"], f"{told['ms']}ms" if told["ms"] is not None else None]
    return f" prefill={log_text.word(':'.join(str(part) for part in parts if part is not None))}"


def _waited(wait: Wait, now: float) -> str:
    """How long the request was queued, in the text form."""
    dropped = f" dropped={wait.dropped_reason}" if wait.dropped_reason else ""
    place = wait.place
    ms = int(wait.seconds(now) * 1e3 + 0.5)
    start_ms = int(wait.start_seconds(now) * 1e3 + 0.5)
    started = f" start_wait={start_ms}ms" if start_ms else ""
    return f" queued={ms}ms{started} flow={log_text.word(place.flow)} priority={place.priority}{dropped}"


def _waited_in_json(wait: Wait, now: float) -> tuple[str, str]:
    """The fields before and after the priority."""
    ms = int(wait.seconds(now) * 1e3 + 0.5)
    start_ms = int(wait.start_seconds(now) * 1e3 + 0.5)
    flow = log_text.quoted(wait.place.flow)
    dropped = f'"{wait.dropped_reason}"' if wait.dropped_reason else "null"
    waited = f'"duration_queued":{ms},"duration_start_wait":{start_ms},"flow":{flow}'
    return waited, f'"dropped_reason":{dropped}'


def _trace_id(request: LoggedRequest) -> str:
    """The trace of a request: that of its spans, or of its client's `traceparent`; "-" if that is invalid."""
    trace = request.trace
    if trace is not None and trace.is_kept:
        return trace.trace_id.decode()
    return context.trace_id(request.traceparent) or "-"


def _trace_in_json(request: LoggedRequest) -> str:
    found = _trace_id(request)
    return f'"{found}"' if found != "-" else "null"
