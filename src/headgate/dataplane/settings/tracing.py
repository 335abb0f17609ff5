"""The section about traces."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from headgate.dataplane.settings.section import DAY_S, Section, setting

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Tracing(Section, frozen=True):
    """Distributed tracing with OpenTelemetry."""

    endpoint: Annotated[
        str,
        setting(
            "URL of the collector to which traces are exported by OTLP over HTTP, such as "
            "http://localhost:4318; needs headgate[otel]. Without it, the standard variables such as "
            "OTEL_EXPORTER_OTLP_ENDPOINT decide whether and where traces are exported.",
            live=False,
        ),
    ] = ""
    sample_ratio: Annotated[
        _Share | None,
        setting(
            "Share of the requests whose client does not decide about sampling, from 0 to 1, that is "
            "sampled. Without it: OTEL_TRACES_SAMPLER, or 0.01. If no traces are exported, the share of the "
            "requests without a trace for which the gateway starts one, so that engines record it; without "
            "it, none."
        ),
    ] = None
    sampled_from: Annotated[
        Literal["anyone", "trusted", "nobody"],
        setting(
            "Whose traceparent decides whether its request is sampled: anyone's, that of trusted networks, "
            "or nobody's."
        ),
    ] = "trusted"
    errors: Annotated[
        bool,
        setting("Whether requests are also traced that failed through no fault of their client."),
    ] = True
    slow_s: Annotated[
        float,
        setting("Requests that take at least this long are also traced; 0 means none.", ge=0, le=DAY_S),
    ] = 60.0
    slow_first_token_s: Annotated[
        float,
        setting(
            "So are streamed requests whose first token takes at least this long; 0 means none.",
            ge=0,
            le=DAY_S,
        ),
    ] = 10.0
    max_kept_per_s: Annotated[
        float,
        setting(
            "Most traces per second that each worker exports only because a request failed or was slow.",
            ge=0,
            le=100_000,
        ),
    ] = 10.0
