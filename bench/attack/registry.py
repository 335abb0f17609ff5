"""All attacks by name: their targets, their victims, and the memory limits during the attack."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

from attack import by_clients, by_engines, by_own_engines, by_tenants, by_tokens, engines
from attack.target import Outcomes, Target

Run = Callable[[Target], Awaitable[Outcomes]]

GATEWAY_MB = 300
"""Resident memory of a gateway during an attack without large bodies."""
_API_SERVER: dict[str, Any] = {"of": "apiserver", "memory_mb": 700}
"""Its resident memory includes the objects of this benchmark."""


@dataclass(frozen=True)
class Attack:
    """One row of the table."""

    name: str
    run: Run
    of: Literal["gateway", "apiserver", "node"] = "gateway"
    """The process whose memory is measured and whose client the victim is."""
    memory_mb: float = GATEWAY_MB
    prepare: Callable[[str], Awaitable[None]] | None = None
    """Creates the objects that the attack needs, with the administrator's kubeconfig."""
    make: Callable[[], object] | None = None
    """Creates and caches the attacker's data; called before the attack begins."""
    least_s: float = 0.0
    """Minimum duration: some attacks need a while to have an effect."""
    peer: Literal["", "nginx", "envoy"] = ""
    """The proxy to attack as well, if the attack applies to a plain proxy."""


def _attack(name: str, run: Callable[[Target], Any], **rest: Any) -> Attack:
    return Attack(name, cast(Run, run), **rest)


BODIES_MB = 1200
"""With the default limit on unfinished bodies (docs/limits.md)."""

OWN_ENGINES_MB = 600
"""With pages and lists of 4 MB from sixteen engines at once."""
KV_EVENTS_MB = 1200
"""With the default limit on the blocks of all engines together (docs/limits.md)."""

_OF_BODIES: dict[str, Any] = {"memory_mb": BODIES_MB, "peer": "nginx"}
_READ_BYTES = {"chunks of one byte": 1_000_000, "events of one byte": 1_000_000}
"""How much of a hostile response clients read, if its beginning is not enough."""

ATTACKS: tuple[Attack, ...] = (
    _attack("aborted uploads", by_clients.aborted_uploads, **_OF_BODIES),
    _attack(
        "60 unfinished bodies of 31 MB",
        by_clients.unfinished_bodies,
        make=by_clients.most_of_a_body,
        **_OF_BODIES,
    ),
    *(
        _attack(f"30 MB of {shape}", by_clients.large_body(make), make=make, **_OF_BODIES)
        for shape, make in by_clients.SHAPES.items()
    ),
    *(
        _attack(f"four times 30 MB of {shape}", by_clients.large_body(make, 4), make=make, **_OF_BODIES)
        for shape, make in by_clients.SHAPES.items()
        if shape in ("numbers", "a long prompt")
    ),
    _attack("bodies in chunks of one byte", by_clients.tiny_chunks, peer="nginx"),
    _attack("trailers without end", by_clients.endless_trailers, peer="nginx"),
    _attack("2,000 requests sent ahead", by_clients.pipelined, peer="nginx"),
    _attack("200 clients, 4 KB of requests each", by_clients.requests_in_bursts, peer="nginx"),
    _attack("300 clients, 4 KB of chunks each", by_clients.tiny_chunks_in_bursts, peer="nginx"),
    _attack("requests behind bodies", by_clients.requests_behind_bodies, peer="nginx"),
    _attack("slow heads", by_clients.slow_heads, peer="nginx"),
    _attack("idle on metrics and admin", by_clients.idle_on_own_ports),
    _attack("surrogates, JSON in names", by_clients.odd_texts),
    _attack("forms of many parts", by_clients.odd_forms),
    *(
        _attack(
            f"engine: {fault}",
            by_engines.answered_with(fault, read_bytes=_READ_BYTES.get(fault, 1)),
            peer="nginx",
        )
        for fault in engines.FAULTS
    ),
    *(
        _attack(f"engine: {flood}", by_engines.answered_with(flood, by_engines.MODEL_OF_HTTP2), peer="envoy")
        for flood in [*(name.decode() for name in engines.FLOODS), "CONTINUATION flood"]
    ),
    *(
        _attack(f"16 engines: {what}", run, make=made, memory_mb=OWN_ENGINES_MB, least_s=5.0)
        for what, (made, run) in {
            "pages of 37,000 lines": by_own_engines.answering(
                b"/metrics", by_own_engines.pages_of_many_lines
            ),
            "lists of 220,000 models": by_own_engines.answering(
                b"/v1/models", by_own_engines.lists_of_many_models
            ),
            "empty lists in a list of models": by_own_engines.answering(
                b"/v1/models", by_own_engines.lists_of_empty_lists
            ),
        }.items()
    ),
    _attack(
        "16 engines: two million tokens",
        by_own_engines.tokens,
        make=by_own_engines.huge_answer_of_tokens,
        memory_mb=OWN_ENGINES_MB,
    ),
    _attack("4,000 requests of a deleted pool", by_clients.requests_of_a_deleted_pool, memory_mb=400),
    _attack("patterns in routes", by_tenants.regular_expressions),
    _attack(
        "edits among 10,000 routes",
        by_tenants.edits_among_many_routes,
        prepare=by_tenants.make_many_routes,
        memory_mb=600,
    ),
    _attack("16 engines: endless KV events", by_own_engines.publishers, memory_mb=KV_EVENTS_MB, least_s=8.0),
    _attack(
        "a cache of 480,000 blocks cleared",
        by_own_engines.a_cleared_cache,
        memory_mb=KV_EVENTS_MB,
        least_s=12.0,
    ),
    _attack("CEL rules of foreign kinds", by_tenants.expressions_of_foreign_kinds, **_API_SERVER),
    _attack("watches of a reader", by_tokens.watches, **_API_SERVER),
    _attack(
        "lists that are not read",
        by_tokens.unread_lists,
        prepare=by_tokens.make_large_objects,
        **_API_SERVER,
    ),
    _attack("long access reviews of a reader", by_tokens.reviews, make=by_tokens.long_reviews, **_API_SERVER),
    _attack("writes of one user", by_tokens.writes, **_API_SERVER),
    *(
        _attack(name, run, prepare=by_tokens.make_patched, **_API_SERVER)
        for name, run in {
            "JSON patches that copy 3 MB": by_tokens.patches_that_copy,
            "deep merge patches": by_tokens.deep_merge_patches,
            "strategic merge patches": by_tokens.strategic_merge_patches,
        }.items()
    ),
    _attack(
        "60 readers of a log",
        by_tokens.log_readers,
        prepare=by_tokens.wait_for_logs,
        of="node",
        memory_mb=200,
    ),
    _attack("strangers: heads of tiny headers", by_tokens.tiny_headers, **_API_SERVER),
    _attack("strangers: chunks of one byte", by_tokens.tiny_chunks, **_API_SERVER),
    _attack("strangers: slow heads", by_tokens.slow_heads, **_API_SERVER),
    _attack("unfinished bodies of one user", by_tokens.slow_bodies, of="apiserver", memory_mb=1000),
    _attack("unfinished TLS handshakes", by_tokens.handshakes, **_API_SERVER),
)
