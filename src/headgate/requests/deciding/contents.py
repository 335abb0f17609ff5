"""Fills a decision with what its endpoint gets, and with the request as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import xxhash

from headgate import scheduling
from headgate.fleet import scripts
from headgate.fleet.prefix import hashing
from headgate.requests import paths
from headgate.requests.bodies import forms, large, prompt
from headgate.requests.bodies.fields import ask_for_usage, inspect, invalid_json, replace_model
from headgate.requests.bodies.members import Fields, Prompt
from headgate.requests.bodies.pieces import Pieces
from headgate.requests.bodies.scan import ScanError
from headgate.requests.deciding.pools import adapter_of
from headgate.requests.deciding.priorities import priority_of
from headgate.requests.destinations import Destination
from headgate.requests.refusal import Refusal

if TYPE_CHECKING:
    from headgate.requests.client import ClientRequest
    from headgate.requests.deciding.surroundings import Surroundings
    from headgate.requests.decision import Decision

READ_FROM_BYTES: Final = 16 * 1024
"""If the prompt is not hashed, smaller bodies count as prompt as a whole."""
LONGEST_SALT_BYTES: Final = 256
_USAGE_BY_OPTION: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
"""Paths where a stream ends with token counts only if `stream_options` asks for them."""


def read_fields(
    request: ClientRequest, content: bytes, body: large.Body | None
) -> tuple[Fields, forms.Form | None] | Refusal:
    """What a body says of itself: the members of a JSON object, or the parts of a form, which comes along.
    `body` is a large one, which was read before; `content` counts otherwise."""
    fields = inspect(content) if body is None else body.fields
    if isinstance(fields, Fields):
        return fields, None
    form = forms.read(request.headers, content) if body is None else body.form
    if isinstance(form, forms.Form):
        return Fields(form.model, form.stream), form
    return form or fields


def fill(
    decision: Decision,
    known: Surroundings,
    request: ClientRequest,
    content: bytes,
    read: tuple[Fields, forms.Form | None],
    body: large.Body | None,
    *,
    asks_for_usage: bool,
) -> None:
    """Set the body for the endpoint, and the request as the scheduler sees it, or the refusal. `content`,
    `read` and `body` are those of `read_fields`."""
    fields, form = read
    if body is None:
        decision.refusal = _fill_body(decision, known, request, content, fields, form, asks_for_usage)
    else:
        _fill_large_body(decision, known, request, fields, body, asks_for_usage)


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
