"""What is to be done with a request: the pool that it goes to, and the body that is sent there.

Pure, apart from the turn that a weighted split takes: nothing is sent, and nothing waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import xxhash

from headgate import routing, scheduling
from headgate.api import ObjectRef
from headgate.fleet import AnswerSizes, PromptSizes, scripts
from headgate.fleet.prefix import hashing
from headgate.requests import paths
from headgate.requests.bodies import forms, large, prompt
from headgate.requests.bodies.fields import ask_for_usage, inspect, invalid_json, replace_model
from headgate.requests.bodies.members import Fields, Prompt
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.bodies.scan import ScanError
from headgate.requests.destinations import Destination
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.fleet.scripts import Amounts
    from headgate.requests.client import ClientRequest
    from headgate.requests.pool_state import PoolState

READ_FROM_BYTES: Final = 16 * 1024
"""Where the prompt is not hashed, smaller bodies count as one from end to end."""
LONGEST_SALT_BYTES: Final = 256
_USAGE_BY_OPTION: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Where a stream ends with its token counts only if `stream_options` says so."""
_NAME_OBJECTIVES: Final = frozenset(routing.OBJECTIVE_HEADERS)


class Turns(Protocol):
    """Gives the target of a rule whose turn it is, and takes that turn; or only looks."""

    def next(self, route: ObjectRef, rule: routing.Rule) -> routing.Target | None: ...


class Surroundings(Protocol):
    """What a decision depends on besides the request; a DataPlane, or what somebody supposes."""

    @property
    def snapshot(self) -> routing.Snapshot: ...
    @property
    def pools(self) -> Mapping[ObjectRef, PoolState]: ...
    @property
    def destinations(self) -> Mapping[str, Destination]:
        """Where all requests of a model go; of other models, each has to be looked at."""
        ...

    @property
    def splits(self) -> Turns: ...
    @property
    def prompt_sizes(self) -> PromptSizes: ...
    @property
    def answer_sizes(self) -> AnswerSizes: ...
    @property
    def is_ready(self) -> bool: ...
    @property
    def paths(self) -> paths.Paths: ...
    @property
    def believes_objectives(self) -> bool:
        """Whether all clients may name an objective, and not trusted ones only."""
        ...


UNREAD: Final = scheduling.Request(model="", prompt_tokens=0)
"""Of a request that comes to no pool."""


class Decision:
    """Where one request goes. Where it is refused, the fields say how far it came."""

    __slots__ = (
        "body",
        "change",
        "client_name",
        "match",
        "model",
        "pool",
        "prompt_amounts",
        "prompt_bytes",
        "refusal",
        "scheduled",
        "stream",
        "target",
        "upstream_model",
        "usage_unasked",
    )

    def __init__(self) -> None:
        self.model = ""
        """What the client asked for."""
        self.stream = False
        self.match: routing.Match | None = None
        self.target: routing.Target | None = None
        self.pool: PoolState | None = None
        self.upstream_model = ""
        """What the endpoint is asked for: what the target says; else its own name for the model, where it has
        one, or the adapter's."""
        self.scheduled = UNREAD
        """What the scheduler is told of it."""
        self.prompt_bytes = 0
        """How long the prompt is, if its tokens are estimated by that alone; 0 otherwise."""
        self.prompt_amounts: Amounts | None = None
        """How much of it is in which script, if it is not all ASCII."""
        self.body: bytes | Pieces = b""
        """What is sent to the endpoint; dropped once nothing is sent again."""
        self.change: large.Change | None = None
        """How that differs from what the client sent, of a large JSON body; dropped together with it."""
        self.client_name = b""
        """The model's name as a JSON string, to be put back into the answer; empty where the endpoint knows
        the model by the same name."""
        self.usage_unasked = False
        """Whether the endpoint is asked for the usage of a stream, and the client did not."""
        self.refusal: Refusal | None = None


def decide(known: Surroundings, request: ClientRequest, body: large.Body | None = None) -> Decision:
    """Finds the pool of the request and what is sent to it. Of a large request, the body was read before."""
    decision = Decision()
    decision.refusal = known.paths.refusal(request.path) or encoded(request)
    if decision.refusal is not None:
        return decision
    form: forms.Form | None = None
    content = request.body if body is None else b""
    assert isinstance(content, bytes)
    fields = inspect(content) if body is None else body.fields
    if not isinstance(fields, Fields):
        read = forms.read(request.headers, content) if body is None else body.form
        if not isinstance(read, forms.Form):
            decision.refusal = read or fields
            return decision
        form = read
        fields = Fields(form.model, form.stream)
    decision.model = fields.model or ""
    decision.stream = fields.stream is True
    decision.refusal = _find_pool(decision, known, request)
    if decision.refusal is not None:
        return decision
    if body is None:
        decision.refusal = _fill_body(decision, known, request, content, fields, form)
    else:
        _fill_large_body(decision, known, request, fields, body)
    return decision


def _not_ready() -> Refusal:
    return Refusal.unavailable("the gateway has not heard of its routes yet", code="not_ready")


def encoded(request: ClientRequest) -> Refusal | None:
    """Why a body is not read of which its client says that it is encoded. What it looks like does not matter:
    the endpoint would go by what it says."""
    if not request.content_coding:
        return None
    coding = request.content_coding[:64].decode("latin-1").strip()
    return Refusal.bad_request(
        f"the request has content-encoding {coding!r}, and the gateway routes by the body, which it does not "
        "decode: send the body as it is, without content-encoding",
        code="compressed_body",
        status=415,
    )


def _find_pool(decision: Decision, known: Surroundings, request: ClientRequest) -> Refusal | None:
    model = decision.model
    destination = known.destinations.get(model)
    if destination is not None:
        match, target, pool = destination
        decision.match, decision.target, decision.pool = destination
    else:
        found = _look_for_pool(decision, known, request)
        if isinstance(found, Refusal):
            return found
        match, target, pool = found
    served = pool.pool.model
    decision.upstream_model = target.model or (model if served is None or match.is_adapter else served)
    return None


def _look_for_pool(decision: Decision, known: Surroundings, request: ClientRequest) -> Destination | Refusal:
    """Where this request goes, of a model whose requests may go several ways."""
    model = decision.model
    try:
        match = decision.match = routing.match(known.snapshot, model, request.path, request.header)
    except routing.TooCostlyError as error:
        return Refusal.bad_request(
            f"to compare this request with the routes of the model {model[:256]!r} takes {error}: shorten "
            f"its path and headers, or use fewer or smaller regular expressions in the routes",
            code="routes_too_costly",
        )
    if match is None:
        if not known.is_ready:
            return _not_ready()
        is_known = routing.is_named(known.snapshot, model)
        return Refusal.no_rule_matches(model) if is_known else Refusal.model_not_found(model)
    target = decision.target = known.splits.next(match.route.key, match.rule)
    if target is None:
        return _no_target(match, model)
    pool = decision.pool = known.pools.get(target.pool)
    return Destination(match, target, pool) if pool is not None else _no_pool(match, target)


def _no_target(match: routing.Match, model: str) -> Refusal:
    if match.route.is_reserved:
        why = f"{match.route.key} reserves the name {model[:256]!r}: every weight of its targets is 0"
        return Refusal.missing(f"there is no valid target model: {why}", code="model_reserved")
    return Refusal.unavailable(
        f"rule {match.rule.name} of {match.route.key} has no target with a weight", code="no_target"
    )


def _no_pool(match: routing.Match, target: routing.Target) -> Refusal:
    """A ModelServer that is missing is the mistake of who wrote the route; an InferencePool may yet come."""
    why = f"{match.route.key} names {target.pool}, which does not exist"
    if target.pool.kind == routing.MODEL_SERVER:
        return Refusal.missing(why, code="model_not_found")
    return Refusal.unavailable(why, code="pool_not_found", dropped="rejected-no-endpoints")


def _fill_body(
    decision: Decision,
    known: Surroundings,
    request: ClientRequest,
    body: bytes,
    fields: Fields,
    form: forms.Form | None,
) -> Refusal | None:
    model = decision.model
    upstream_model = decision.upstream_model
    if upstream_model != model:
        try:
            body = (
                replace_model(body, upstream_model) if form is None else form.with_model(body, upstream_model)
            )
        except ScanError as error:
            return invalid_json(str(error))
        except RecursionError:  # it is as deep as could just be read before
            return invalid_json("it is nested too deeply")
        decision.client_name = msgspec.json.encode(model)
    decision.scheduled = _scheduled(decision, known, request, upstream_model, fields, form is not None, None)
    if decision.stream and form is None and request.path in _USAGE_BY_OPTION:
        with_usage = ask_for_usage(body, fields)
        if with_usage is not None:
            body = with_usage
            decision.usage_unasked = True
    decision.body = body
    return None


def _fill_large_body(
    decision: Decision, known: Surroundings, request: ClientRequest, fields: Fields, body: large.Body
) -> None:
    """The same without a step whose time grows with the body."""
    model, upstream_model = decision.model, decision.upstream_model
    is_form = isinstance(body.form, forms.Form)
    is_renamed = upstream_model != model
    if is_renamed:
        decision.client_name = msgspec.json.encode(model)
    decision.scheduled = _scheduled(decision, known, request, upstream_model, fields, is_form, body.prompt)
    if is_form:
        decision.body = body.with_form_model(upstream_model) if is_renamed else Pieces((body.whole,))
    else:
        asks = decision.stream and request.path in _USAGE_BY_OPTION
        change = body.changed(upstream_model if is_renamed else None, asks_for_usage=asks)
        decision.usage_unasked = change.asks_for_usage
        decision.change, decision.body = change, change.pieces()


def _scheduled(
    decision: Decision,
    known: Surroundings,
    request: ClientRequest,
    upstream_model: str,
    fields: Fields,
    is_form: bool,
    known_prompt: Prompt | None,
) -> scheduling.Request:
    """What the scheduler is told; the hashes of the prompt only if the pool's policy looks at them.

    A form has no prompt; that of a large body was read before.
    """
    pool, match, target = decision.pool, decision.match, decision.target
    assert pool is not None
    assert match is not None
    assert target is not None
    adapter, priority, objectives = "", match.route.priority, pool.pool.objectives
    if target.model:
        if upstream_model in pool.adapters:
            adapter = upstream_model
    elif match.is_adapter:
        adapter = decision.model
    if objectives and (known.believes_objectives or request.is_from_trusted):
        priority = _priority(objectives, request, priority)
    prompt_tokens = len(request.body) // forms.BYTES_PER_TOKEN
    prefix: Sequence[int] = ()
    blocks = hashing.USUAL
    block_tokens = 0.0
    if not is_form:
        is_hashed = pool.policy.uses_prefix
        if is_hashed or match.route.limits is not None or len(request.body) >= READ_FROM_BYTES:
            read = known_prompt or prompt.read(fields, request.path)
            bytes_per_token = _bytes_per_token(decision, known, upstream_model, read)
            prompt_tokens = read.tokens or int(read.size / bytes_per_token)
            if is_hashed and pool.policy.first_block_bytes:
                blocks = hashing.blocks_from(pool.policy.first_block_bytes)
            if is_hashed and len(read.text) >= blocks.byte_ends[0]:
                prefix = hashing.hashes(read.text, hashing.seed(upstream_model, _salt(fields)), blocks)
                block_tokens = hashing.BLOCK_BYTES / bytes_per_token
        else:
            prompt_tokens = int(len(request.body) / known.prompt_sizes.bytes_per_token(upstream_model))
    return scheduling.Request(
        model=upstream_model,
        prompt_tokens=prompt_tokens,
        adapter=adapter,
        output_tokens=known.answer_sizes.expected(upstream_model, fields.most_tokens),
        prefix=prefix,
        block_tokens=block_tokens,
        block_ends=blocks.ends if prefix else (),
        priority=priority,
        header=request.header,
    )


def _bytes_per_token(decision: Decision, known: Surroundings, model: str, read: Prompt) -> float:
    """Notes what the estimate goes by, so that the engine's count can correct it."""
    if read.tokens:
        return read.size / read.tokens
    sizes = known.prompt_sizes
    if not read.has_media:
        decision.prompt_bytes = read.size
        amounts = decision.prompt_amounts = scripts.amounts(read.text, read.size)
        if amounts is not None:
            return read.size / sizes.tokens(model, amounts)
    return sizes.bytes_per_token(model)


def _salt(fields: Fields) -> bytes:
    """Salts are remembered, long ones by their hash."""
    salt = bytes(fields.cache_salt)
    return salt if len(salt) <= LONGEST_SALT_BYTES else xxhash.xxh3_128_digest(salt)


def _priority(objectives: Mapping[str, int], request: ClientRequest, otherwise: int) -> int:
    """That of the objective that the request names, if it is one of the pool's."""
    named = {header: value for header, value in reversed(request.headers) if header in _NAME_OBJECTIVES}
    if not named:
        return otherwise
    first = next(header for header in routing.OBJECTIVE_HEADERS if header in named)
    return objectives.get(named[first].decode("latin-1").strip(), otherwise)


def no_endpoint(pool: PoolState, max_requests: int, refused: scheduling.Refused | None = None) -> Refusal:
    """Why a pool has no endpoint that could be asked, each of which may have so many requests.

    `refused` is what its policy says, where there are endpoints that it might have picked.
    """
    key = pool.pool.key
    if refused is not None:
        why = f"the scheduling policy of {key} picks no endpoint: {refused.why}"
        if refused.is_busy:
            return Refusal.saturated(why, code="pool_saturated")
        return Refusal.unavailable(why, code="no_suited_endpoint", dropped="rejected-no-endpoints")
    if not (pool.loads if pool.pairs is None else pool.pairs.decode):
        fault = pool.pool.fault
        no_pod = f"no Pod of it {'that decodes ' if pool.loads else ''}is ready"
        why = "its status says why" if fault else no_pod
        return Refusal.unavailable(
            f"{key} has no ready endpoint: {why}",
            code="no_ready_endpoint",
            dropped="rejected-no-endpoints",
            logged=f"{key} has no ready endpoint: {fault}" if fault else "",
        )
    return Refusal.unavailable(
        f"every endpoint of {key} was tried or has {max_requests} requests from this gateway",
        code="endpoints_full",
    )
