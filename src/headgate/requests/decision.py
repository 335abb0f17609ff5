"""Decides about a request: the pool that serves it, and the body that the endpoint gets.

Pure, except that a weighted split advances: nothing is sent, and nothing waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec
import xxhash

from headgate import routing, scheduling
from headgate.api import ObjectRef
from headgate.fleet import LearnedSizes, scripts
from headgate.fleet.prefix import hashing
from headgate.requests import paths
from headgate.requests.bodies import forms, large, prompt
from headgate.requests.bodies.fields import (
    ask_for_usage,
    has_one_model,
    inspect,
    invalid_json,
    names_one_model,
    replace_model,
)
from headgate.requests.bodies.members import Fields, Prompt
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.bodies.scan import ScanError
from headgate.requests.destinations import Destination
from headgate.requests.providers import Providers
from headgate.requests.refusal import START_FAILED, STARTING, Refusal

if TYPE_CHECKING:
    from headgate.fleet.scripts import Amounts
    from headgate.requests.client import ClientRequest
    from headgate.requests.pool_state import PoolState
    from headgate.requests.proxied import Proxied

READ_FROM_BYTES: Final = 16 * 1024
"""If the prompt is not hashed, smaller bodies count as prompt as a whole."""
LONGEST_SALT_BYTES: Final = 256
_USAGE_BY_OPTION: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Paths where a stream ends with token counts only if `stream_options` asks for them."""
_NAME_OBJECTIVES: Final = frozenset(routing.OBJECTIVE_HEADERS)


class Turns(Protocol):
    """Returns the next target of a rule's weighted split. An implementation may peek without advancing it."""

    def next(self, route: ObjectRef, rule: routing.Rule) -> routing.Target | None: ...


class Surroundings(Protocol):
    """What a decision depends on besides the request: a DataPlane, or a hypothetical one."""

    @property
    def snapshot(self) -> routing.Snapshot: ...
    @property
    def pools(self) -> Mapping[ObjectRef, PoolState]: ...
    @property
    def destinations(self) -> Mapping[str, Destination]:
        """The destination of each model whose requests all go to one pool; other models need a match per
        request."""
        ...

    @property
    def providers(self) -> Providers: ...
    @property
    def splits(self) -> Turns: ...
    @property
    def sizes(self) -> LearnedSizes: ...
    @property
    def is_ready(self) -> bool: ...
    @property
    def paths(self) -> paths.Paths: ...
    @property
    def believes_objectives(self) -> bool:
        """Whether every client may name an objective, not only trusted ones."""
        ...


UNREAD: Final = scheduling.Request(model="", prompt_tokens=0)
"""For a request that reaches no pool."""


class Decision:
    """The destination of one request. If it is refused, the fields are set as far as the decision got."""

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
        """The model that the client requested."""
        self.stream = False
        self.match: routing.Match | None = None
        self.target: routing.Target | None = None
        self.pool: PoolState | None = None
        self.upstream_model = ""
        """The model name sent to the endpoint: the target's, else the endpoint's own name for the model, if
        it has one, or the adapter's."""
        self.scheduled = UNREAD
        """The request as the scheduler sees it."""
        self.prompt_bytes = 0
        """Length of the prompt, if its tokens are estimated from that alone; 0 otherwise."""
        self.prompt_amounts: Amounts | None = None
        """The amount of text per script, if the prompt is not all ASCII."""
        self.body: bytes | Pieces = b""
        """Sent to the endpoint; dropped once no further attempt can follow."""
        self.change: large.Change | None = None
        """For a large JSON body, its difference from the client's body; dropped together with `body`."""
        self.client_name = b""
        """The client's model name as a JSON string, to restore in the response; empty if the endpoint uses
        the same name."""
        self.usage_unasked = False
        """Whether the gateway asks for the usage of a stream for which the client did not ask."""
        self.refusal: Refusal | None = None

    @property
    def fallback(self) -> routing.Fallback | None:
        """What takes over from its route, or else from its pool; None if nothing does."""
        match, pool = self.match, self.pool
        fallback = None if match is None else match.route.fallback
        return pool.pool.fallback if fallback is None and pool is not None else fallback


def decide(
    known: Surroundings,
    request: ClientRequest,
    body: large.Body | None = None,
    proxied: Proxied | None = None,
) -> Decision:
    """Find the pool of a request, and build the body for it. A large body was read before."""
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
    decision.refusal = forbidden(decision, request)
    if decision.refusal is None:
        decision.refusal = find_pool(decision, known, request, proxied)
    asks_for_usage = proxied is None or proxied.asks_for_usage
    if decision.refusal is not None:
        return decision
    if body is None:
        decision.refusal = _fill_body(decision, known, request, content, fields, form, asks_for_usage)
    else:
        _fill_large_body(decision, known, request, fields, body, asks_for_usage)
    return decision


def decide_in(
    known: Surroundings,
    request: ClientRequest,
    pool: PoolState,
    route: routing.Route,
    body: large.Body | None = None,
) -> Decision:
    """The same for a request whose pool is known, with any path and any content. `route` is used unless a
    route for its model leads to this pool; its fallbacks precede those of that route."""
    decision = Decision()
    decision.pool = pool
    decision.refusal = encoded(request)
    if decision.refusal is not None:
        return decision
    content = request.body if body is None else b""
    assert isinstance(content, bytes)
    form: forms.Form | None = None
    fields = inspect(content) if body is None else body.fields
    if not isinstance(fields, Fields):
        read = forms.read(request.headers, content) if body is None else body.form
        form = read if isinstance(read, forms.Form) else None
        fields = Fields(form.model, form.stream) if form is not None else Fields()
    decision.model = model = fields.model or ""
    decision.stream = fields.stream is True
    if (refusal := forbidden(decision, request)) is not None:
        decision.refusal = refusal
        return decision
    found = _leads_to(known, model, pool.pool.key)
    if found is not None and route.fallback is not None:
        found = msgspec.structs.replace(
            found, route=msgspec.structs.replace(found.route, fallback=route.fallback)
        )
    match = decision.match = found or routing.Match(route, route.rules[0], is_adapter=False)
    target = None if found is None else known.splits.next(match.route.key, match.rule)
    target = decision.target = target or routing.Target(pool.pool.key, 1)
    if pool.pool.rewrites is not None:
        target = _rewritten(decision, known, pool.pool.rewrites, target)
    if not model:
        decision.scheduled = scheduling.Request(
            model="", prompt_tokens=len(request.body) // forms.BYTES_PER_TOKEN, header=request.header
        )
        decision.body = content if body is None else Pieces((body.whole,))
        return decision
    decision.upstream_model = _name_there(model, match, target, pool)
    if body is None:
        decision.refusal = _fill_body(decision, known, request, content, fields, form, True)
    else:
        _fill_large_body(decision, known, request, fields, body, True)
    return decision


def decide_next(
    known: Surroundings,
    request: ClientRequest,
    before: Decision,
    next: routing.Next,
    body: large.Body | None = None,
) -> Decision:
    """Decide about a request whose present destination is to be left for `next`; the body is that of
    `before`, unless a large one is given. What follows after that is up to the caller."""
    decision = Decision()
    content = (before.body or request.body) if body is None else b""
    assert isinstance(content, bytes)
    if not request.body:  # only one of two bodies was kept
        request.body = content if body is None else body.whole
    form: forms.Form | None = None
    fields = inspect(content) if body is None else body.fields
    if not isinstance(fields, Fields):
        read = forms.read(request.headers, content) if body is None else body.form
        if not isinstance(read, forms.Form):
            decision.refusal = read or fields
            return decision
        form = read
        fields = Fields(form.model, form.stream)
    decision.model = next.model or before.model
    decision.stream = before.stream
    if next.provider:
        is_clear = names_one_model(content) if body is None else has_one_model(body.members)
        _go_outside(decision, known, request, next, is_json=form is None, is_clear=is_clear)
    else:
        decision.refusal = forbidden(decision, request)
    if decision.refusal is None and not next.provider:
        if next.pool is None:
            # A rule of the Gateway API opens all paths of its own pool, and not those of other models.
            refusal = known.paths.refusal(request.path)
            decision.refusal = refusal or find_pool(decision, known, request, None)
        else:
            decision.refusal = _go_to(decision, known, before, next.pool)
    if decision.refusal is not None:
        return decision
    if body is None:
        decision.refusal = _fill_body(decision, known, request, content, fields, form, True)
    else:
        _fill_large_body(decision, known, request, fields, body, True)
    decision.usage_unasked = decision.usage_unasked or before.usage_unasked
    if next.provider:
        decision.client_name = b""  # the response keeps the provider's own name of its model
    return decision


def _go_outside(
    decision: Decision,
    known: Surroundings,
    request: ClientRequest,
    next: routing.Next,
    *,
    is_json: bool,
    is_clear: bool,
) -> None:
    """The destination is an external provider. It must not find another model in the body than those that it
    may be asked for."""
    found = known.providers.find(next, request)
    if not is_json:
        decision.refusal = Refusal.unavailable("providers get JSON only", code="provider_not_usable")
    elif isinstance(found, Refusal):
        decision.refusal = found
    elif not is_clear:
        told = "the body has several members `model`, of which providers could take another"
        decision.refusal = Refusal.unavailable(told, code="provider_not_usable")
    else:
        decision.model = found.model
        decision.match, decision.target, decision.pool = found.destination
        decision.upstream_model = found.destination.target.model
        decision.refusal = forbidden(decision, request)


def _go_to(decision: Decision, known: Surroundings, before: Decision, key: ObjectRef) -> Refusal | None:
    """The route stays, and the pool is another."""
    pool, match = known.pools.get(key), before.match
    if pool is None or match is None:
        return Refusal.unavailable(f"there is no {key}", code="pool_not_found")
    decision.match, decision.pool = match, pool
    decision.target = target = routing.Target(key, 1)
    if pool.pool.rewrites is not None:
        target = _rewritten(decision, known, pool.pool.rewrites, target)
    decision.upstream_model = _name_there(decision.model, match, target, pool)
    return None


def _leads_to(known: Surroundings, model: str, pool: ObjectRef) -> routing.Match | None:
    """The first rule for a model that leads all requests to this pool, as one of an InferenceModel does."""
    snapshot = known.snapshot
    for routes, is_adapter in ((snapshot.models, False), (snapshot.adapters, True)):
        for route in routes.get(model, ()):
            for rule in route.rules:
                if rule.pattern is None and rule.has_weight and all(t.pool == pool for t in rule.targets):
                    return routing.Match(route, rule, is_adapter)
    return None


def _not_ready() -> Refusal:
    return Refusal.unavailable("the gateway has not loaded its routes yet", code="not_ready")


def encoded(request: ClientRequest) -> Refusal | None:
    """Refuse a body that is declared as encoded. Its content does not matter, as the endpoint would trust the
    declaration."""
    if not request.content_coding:
        return None
    coding = request.content_coding[:64].decode("latin-1").strip()
    return Refusal.bad_request(
        f"the request has content-encoding {coding!r}, but the gateway reads the body to route it, and does "
        "not decode it: send it without content-encoding",
        code="compressed_body",
        status=415,
    )


def forbidden(decision: Decision, request: ClientRequest) -> Refusal | None:
    """Why the client's tenant may not use the model."""
    tenant = request.tenant
    if tenant is None or tenant.may_use(decision.model):
        return None
    return Refusal.forbidden_model(tenant.name, decision.model)


def find_pool(
    decision: Decision, known: Surroundings, request: ClientRequest, proxied: Proxied | None
) -> Refusal | None:
    """The pool, and the name of the model there."""
    model = decision.model
    destination = known.destinations.get(model)
    if destination is not None:
        match, target, pool = destination
        decision.match, decision.target, decision.pool = destination
    else:
        found = _look_for_pool(decision, known, request, is_proxied=proxied is not None)
        if isinstance(found, Refusal):
            return found
        match, target, pool = found
    if pool.pool.rewrites is not None:
        target = _rewritten(decision, known, pool.pool.rewrites, target)
    renamed = proxied.model if proxied is not None else ""
    if renamed and (pool.pool.rewrites is None or pool.pool.rewrites.of(model) is None):
        decision.target = target = routing.Target(target.pool, target.weight, renamed)
    decision.upstream_model = _name_there(model, match, target, pool)
    return None


def _name_there(model: str, match: routing.Match, target: routing.Target, pool: PoolState) -> str:
    """What the endpoints of the pool call the client's model."""
    served = pool.pool.model
    return target.model or (model if served is None or match.is_adapter else served)


def adapter_of(decision: Decision, destination: Destination) -> str:
    """The adapter that the request is for; empty without one."""
    match, target, pool = destination
    if target.model:
        return decision.upstream_model if decision.upstream_model in pool.adapters else ""
    return decision.model if match.is_adapter else ""


def _rewritten(
    decision: Decision, known: Surroundings, rewrites: routing.Rewrites, target: routing.Target
) -> routing.Target:
    """The target with the other name of the model, if it has one."""
    route = rewrites.of(decision.model)
    renamed = known.splits.next(route.key, route.rules[0]) if route is not None else None
    if renamed is None:
        return target
    decision.target = renamed
    return renamed


def _look_for_pool(
    decision: Decision, known: Surroundings, request: ClientRequest, *, is_proxied: bool
) -> Destination | Refusal:
    """The destination of this request, for a model whose requests may go to several."""
    model = decision.model
    try:
        match = decision.match = routing.match(known.snapshot, model, request.path, request.header)
    except routing.TooCostlyError as error:
        return Refusal.bad_request(
            f"comparing this request with the routes of the model {model[:256]!r} takes {error}: shorten "
            f"its path and headers, or use fewer or smaller regular expressions in the routes",
            code="routes_too_costly",
        )
    if match is None:
        if not known.is_ready:
            return _not_ready()
        is_known = routing.is_named(known.snapshot, model)
        if is_known:
            return Refusal.no_rule_matches(model)
        return Refusal.model_not_found(model, is_proxied=is_proxied)
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
    """A missing ModelServer is a mistake in the route; an InferencePool may be created later."""
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
    asks_for_usage: bool,
) -> Refusal | None:
    upstream_model = decision.upstream_model
    if upstream_model != (fields.model or ""):
        try:
            body = (
                replace_model(body, upstream_model) if form is None else form.with_model(body, upstream_model)
            )
        except ScanError as error:
            return invalid_json(str(error))
        except RecursionError:  # the body was just shallow enough for the decoder
            return invalid_json("it is nested too deeply")
    if upstream_model != decision.model:
        decision.client_name = msgspec.json.encode(decision.model)
    decision.scheduled = _scheduled(
        decision, known, request, upstream_model, fields, form is not None, None, len(request.body)
    )
    if asks_for_usage and decision.stream and form is None and request.path in _USAGE_BY_OPTION:
        with_usage = ask_for_usage(body, fields)
        if with_usage is not None:
            body = with_usage
            decision.usage_unasked = True
    decision.body = body
    return None


def _fill_large_body(
    decision: Decision,
    known: Surroundings,
    request: ClientRequest,
    fields: Fields,
    body: large.Body,
    asks_for_usage: bool,
) -> None:
    """Like `_fill_body`, without any step that takes time proportional to the body."""
    upstream_model = decision.upstream_model
    is_form = isinstance(body.form, forms.Form)
    is_renamed = upstream_model != (fields.model or "")
    if upstream_model != decision.model:
        decision.client_name = msgspec.json.encode(decision.model)
    size = len(body.whole) + body.more_bytes
    decision.scheduled = _scheduled(
        decision, known, request, upstream_model, fields, is_form, body.prompt, size
    )
    if is_form:
        decision.body = body.with_form_model(upstream_model) if is_renamed else Pieces((body.whole,))
    else:
        asks = asks_for_usage and decision.stream and request.path in _USAGE_BY_OPTION
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
    size: int,
) -> scheduling.Request:
    """The request as the scheduler sees it, with the hashes of its prompt if the pool's policy uses them.

    A form has no prompt; the prompt of a large body was read before. `size`: bytes of the body.
    """
    pool, match, target = decision.pool, decision.match, decision.target
    assert pool is not None
    assert match is not None
    assert target is not None
    destination = Destination(match, target, pool)
    adapter = adapter_of(decision, destination)
    priority = priority_of(known, destination, request)
    prompt_tokens = size // forms.BYTES_PER_TOKEN
    prefix: Sequence[int] = ()
    blocks = hashing.USUAL
    block_tokens = 0.0
    if not is_form:
        is_hashed = pool.policy.uses_prefix
        tenant = request.tenant
        is_limited = match.route.limits is not None or (tenant is not None and bool(tenant.limits))
        if is_hashed or is_limited or len(request.body) >= READ_FROM_BYTES:
            read = known_prompt or prompt.read(fields, request.path)
            if read.media:
                read = prompt.placed(read, upstream_model)
            bytes_per_token = _bytes_per_token(decision, known, upstream_model, read)
            prompt_tokens = read.tokens or int((read.size or len(request.body)) / bytes_per_token)
            if is_hashed and pool.policy.first_block_bytes:
                blocks = hashing.blocks_from(pool.policy.first_block_bytes)
            if is_hashed and len(read.text) >= blocks.byte_ends[0]:
                prefix = hashing.hashes(read.text, hashing.seed(upstream_model, _salt(fields)), blocks)
                block_tokens = hashing.BLOCK_BYTES / bytes_per_token
        else:
            prompt_tokens = int(len(request.body) / known.sizes.prompts.bytes_per_token(upstream_model))
    output_tokens = 1
    if request.path not in paths.WITHOUT_OUTPUT:
        output_tokens = known.sizes.answers.expected(upstream_model, fields.most_tokens)
    return scheduling.Request(
        model=upstream_model,
        prompt_tokens=prompt_tokens,
        adapter=adapter,
        output_tokens=output_tokens,
        prefix=prefix,
        block_tokens=block_tokens,
        block_ends=blocks.ends if prefix else (),
        priority=priority,
        header=request.header,
    )


def _bytes_per_token(decision: Decision, known: Surroundings, model: str, read: Prompt) -> float:
    """Records the basis of the estimate, so that the engine's count can correct it."""
    if read.tokens:
        return read.size / read.tokens
    sizes = known.sizes.prompts
    if not read.media and read.size:
        decision.prompt_bytes = read.size
        amounts = decision.prompt_amounts = scripts.amounts(read.text, read.size)
        if amounts is not None:
            return read.size / sizes.tokens(model, amounts)
    return sizes.bytes_per_token(model)


def _salt(fields: Fields) -> bytes:
    """Salts are stored, so long ones are replaced by their hash."""
    salt = bytes(fields.cache_salt)
    return salt if len(salt) <= LONGEST_SALT_BYTES else xxhash.xxh3_128_digest(salt)


def priority_of(known: Surroundings, destination: Destination, request: ClientRequest) -> int:
    """The priority of a request: its objective's, if it names one of the pool, else its route's."""
    priority, objectives = destination.match.route.priority, destination.pool.pool.objectives
    tenant = request.tenant
    if objectives and _chooses_objective(known, request):
        priority = _priority(objectives, request, priority)
    return priority if tenant is None else tenant.bounded(priority)


def _chooses_objective(known: Surroundings, request: ClientRequest) -> bool:
    """Whether the request may name its objective."""
    tenant = request.tenant
    if tenant is not None and tenant.is_defined:
        return tenant.chooses_objective
    return known.believes_objectives or (tenant is None and request.is_from_trusted)


def _priority(objectives: Mapping[str, int], request: ClientRequest, otherwise: int) -> int:
    """The priority of the objective that the request names, if the pool has that objective."""
    named = {header: value for header, value in reversed(request.headers) if header in _NAME_OBJECTIVES}
    if not named:
        return otherwise
    first = next(header for header in routing.OBJECTIVE_HEADERS if header in named)
    return objectives.get(named[first].decode("latin-1").strip(), otherwise)


def no_endpoint(pool: PoolState, max_requests: int, refused: scheduling.Refused | None = None) -> Refusal:
    """Why a pool has no endpoint for a request. `max_requests`: the limit per endpoint.

    `refused` is the reason of its policy, if there were endpoints to pick from.
    """
    key = pool.pool.key
    if refused is not None:
        why = f"the scheduling policy of {key} picks no endpoint: {refused.why}"
        if refused.is_busy:
            return Refusal.saturated(why, code="pool_saturated")
        return Refusal.unavailable(why, code="no_suited_endpoint", dropped="rejected-no-endpoints")
    if not (pool.loads if pool.pairs is None else pool.pairs.decode):
        fault, start = pool.pool.fault, pool.pool.start
        if start is not None and not fault:
            return _not_started(key, start)
        no_pod = f"none of its {'decoding ' if pool.loads else ''}Pods is ready"
        why = "see its status" if fault else no_pod
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


def _not_started(key: ObjectRef, start: routing.Start) -> Refusal:
    """A pool that requests start has no endpoint."""
    why = f"it could not be started: {start.failure}" if start.failure else "it is being started"
    return Refusal.unavailable(
        f"{key} has no ready endpoint: {why}",
        code=START_FAILED if start.failure else STARTING,
        retry_after_s=max(math.ceil(start.expected_s), 1),
        dropped="rejected-no-endpoints",
    )
