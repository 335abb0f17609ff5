"""Sections about client connections: limits, timeouts, trust and web pages."""

from __future__ import annotations

from typing import Annotated

from headgate.dataplane.settings.section import DAY_S, Section, setting


class Clients(Section, frozen=True):
    """Client connections: limits, timeouts and trust."""

    max_head_bytes: Annotated[
        int, setting("Longest request head: request line and headers.", ge=1024, le=1 << 20)
    ] = 32 * 1024
    max_headers: Annotated[int, setting("Most headers in a request.", ge=1, le=10_000)] = 100
    max_body_bytes: Annotated[int, setting("Longest request body.", ge=1024, le=1 << 30)] = 32 * 1024 * 1024
    max_bodies_bytes: Annotated[
        int,
        setting(
            "All request bodies that a worker holds, together; an eighth is reserved for bodies of up to "
            "64 KiB.",
            ge=4096,
            le=1 << 40,
        ),
    ] = 512 * 1024 * 1024
    max_pipelined: Annotated[
        int, setting("Requests that a client may pipeline on one connection.", ge=1, le=1000)
    ] = 16
    max_streams: Annotated[
        int,
        setting("Requests in progress of one HTTP/2 connection.", ge=1, le=10_000),
    ] = 256
    max_connections: Annotated[
        int,
        setting(
            "Client connections of each worker; lower if the process may not open that many files.",
            ge=1,
            le=1_000_000,
        ),
    ] = 10_000
    max_connections_per_address: Annotated[
        int,
        setting(
            "Client connections of each worker from one address (IPv6: one /64 network); 0 is no limit, "
            "because all clients behind a load balancer share one address.",
            ge=0,
            le=1_000_000,
        ),
    ] = 0
    receive_timeout_s: Annotated[
        float,
        setting(
            "Time for a client to send a request, from its first byte to its last; min_body_bytes_per_s "
            "extends it for long bodies.",
            ge=0.1,
            le=DAY_S,
        ),
    ] = 30.0
    min_body_bytes_per_s: Annotated[
        int,
        setting(
            "Slowest upload allowed: receive_timeout_s grows by one second for each this many bytes of body "
            "received.",
            ge=1,
            le=1 << 30,
        ),
    ] = 16 * 1024
    keep_alive_s: Annotated[
        float, setting("How long an idle client connection stays open.", ge=0.1, le=DAY_S)
    ] = 75.0
    trusted_networks: Annotated[
        tuple[str, ...],
        setting(
            "Networks of load balancers and operators. Only from these are x-forwarded-*, x-headgate-* and "
            "x-gateway-* headers accepted; from others, x-forwarded-* is replaced and the rest is dropped."
        ),
    ] = ()
    allowed_hosts: Annotated[
        tuple[str, ...],
        setting(
            "Host names that requests may use, such as api.example.com or *.example.com; empty allows any."
        ),
    ] = ()
    forwarded_paths: Annotated[
        tuple[str, ...],
        setting(
            "Paths forwarded to endpoints besides inference paths, such as /v1/decisions, or with * all "
            "paths below one, such as /team-a/*."
        ),
    ] = ()
    write_buffer_bytes: Annotated[
        int,
        setting(
            "Unsent response bytes per client above which the gateway stops reading from the endpoint.",
            ge=1024,
            le=1 << 26,
        ),
    ] = 64 * 1024


class Cors(Section, frozen=True):
    """Requests from web pages of other origins (CORS)."""

    origins: Annotated[
        tuple[str, ...],
        setting('Origins such as https://app.example.com whose pages may send requests, or "*" for all.'),
    ] = ()
    methods: Annotated[tuple[str, ...], setting("Methods that those pages may use.")] = ("GET", "POST")
    headers: Annotated[
        tuple[str, ...], setting("Request headers that those pages may set; empty allows any.")
    ] = ()
    max_age_s: Annotated[
        int, setting("How long browsers may cache the response to a preflight request.", ge=0, le=int(DAY_S))
    ] = 600
    credentials: Annotated[
        bool, setting("Whether those pages may send cookies and other credentials; not with the origin *.")
    ] = False
