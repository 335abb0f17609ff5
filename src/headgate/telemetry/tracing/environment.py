"""Decides by settings and OpenTelemetry's environment variables whether and how traces are exported.

Settings take precedence over the variables. The variables that are about the exporter itself, such as
`OTEL_EXPORTER_OTLP_HEADERS`, are read by the SDK in the process that exports:
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from importlib import metadata
from typing import Final

import msgspec

DEFAULT_RATIO: Final = 0.01
EXPORTER: Final = "OTEL_TRACES_EXPORTER"
PACKAGES: Final = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
INSTALL: Final = 'pip install "headgate[otel]"'
_TRACES_PATH: Final = "/v1/traces"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SAMPLERS: Final = {"always_on": 1.0, "always_off": 0.0, "traceidratio": None}
"""The ratio of each; None if the argument says it."""
_NO_URL: Final = "is not a URL: one such as http://localhost:4318 is needed"
_PARENT_BASED: Final = "parentbased_"


class Export(msgspec.Struct, frozen=True):
    """How traces are exported."""

    endpoint: str
    """URL to post spans to; empty if the SDK takes it from the environment."""
    shown: str
    """The same for people."""
    ratio: float
    """The share of requests without a parent, or with one that is not believed, that is sampled."""
    follows_parents: bool
    """Whether a believed client decides for its requests."""
    warnings: tuple[str, ...] = ()


def problems(endpoint: str, environment: Mapping[str, str]) -> list[str]:
    """Why traces cannot be exported although they are to be."""
    found = []
    if endpoint and (problem := _url_problem(endpoint)):
        found.append(problem)
    if not endpoint and _asked_by(endpoint, environment):
        name = next((name for name in _ENDPOINTS if environment.get(name)), "")
        if name and not _is_url(environment[name]):  # gRPC does without a scheme, and HTTP cannot
            found.append(f"{name}: {environment[name][:64]!r} {_NO_URL}")
    if (asked := _asked_by(endpoint, environment)) and (missing := _missing()):
        why = f"{asked} asks for traces, but {' and '.join(missing)} cannot be found"
        found.append(f"{why}: {INSTALL}, or set OTEL_SDK_DISABLED=true")
    return found


def ignored_exporters(endpoint: str, environment: Mapping[str, str]) -> str:
    """What to tell about exporters in the environment that do not exist here; "" if there is nothing."""
    if _is_disabled(environment):
        return ""
    unknown = [name for name in _exporters(environment) if name not in ("otlp", "none")]
    if not unknown:
        return ""
    shown = ", ".join(repr(name[:32]) for name in unknown[:3])
    told = f"{shown}: only otlp and none are supported"
    if not _asked_by(endpoint, environment):
        told += ", and no traces are exported: most collectors accept otlp"
    return told


def resolve(endpoint: str, ratio: float | None, environment: Mapping[str, str]) -> Export | None:
    """How traces are exported; None if they are not. `endpoint` and `ratio` are the settings."""
    if not _asked_by(endpoint, environment):
        return None
    warnings: list[str] = []
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "")
    if protocol not in ("", "http/protobuf"):
        warnings.append(f"OTLP protocol {protocol[:32]!r} is not supported: traces go by http/protobuf")
    sampler = environment.get("OTEL_TRACES_SAMPLER", "")
    is_known = sampler.removeprefix(_PARENT_BASED) in _SAMPLERS
    if sampler and not is_known:
        warnings.append(f"OTEL_TRACES_SAMPLER={sampler[:64]!r} is not supported, and ignored")
    if ratio is None:
        ratio = DEFAULT_RATIO
        if sampler and is_known:
            known = _SAMPLERS[sampler.removeprefix(_PARENT_BASED)]
            ratio = known if known is not None else _argument(environment, warnings)
    return Export(
        endpoint=_of_traces(endpoint) if endpoint else "",
        shown=_shown(endpoint, environment),
        ratio=ratio,
        follows_parents=not is_known or sampler.startswith(_PARENT_BASED),
        warnings=tuple(warnings),
    )


def _asked_by(endpoint: str, environment: Mapping[str, str]) -> str:
    """What asks for the export of traces; "" if nothing does."""
    if _is_disabled(environment):
        return ""
    if endpoint:
        return "tracing.endpoint"
    names = _exporters(environment)
    if "otlp" in names:
        return EXPORTER
    if names:  # none, or one that we do not have
        return ""
    return next((name for name in _ENDPOINTS if environment.get(name)), "")


def _is_disabled(environment: Mapping[str, str]) -> bool:
    return environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _exporters(environment: Mapping[str, str]) -> list[str]:
    return [each.strip() for each in environment.get(EXPORTER, "").split(",") if each.strip()]


def _argument(environment: Mapping[str, str], warnings: list[str]) -> float:
    text = environment.get("OTEL_TRACES_SAMPLER_ARG", "")
    try:
        ratio = float(text) if text else 1.0
    except ValueError:
        ratio = -1.0
    if 0 <= ratio <= 1:
        return ratio
    warnings.append(f"OTEL_TRACES_SAMPLER_ARG={text[:32]!r} is not a number from 0 to 1, and ignored")
    return 1.0


def _missing() -> list[str]:
    return [name for name in PACKAGES if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _url_problem(url: str) -> str | None:
    if not _is_url(url):
        return f"{url[:64]!r} {_NO_URL}"
    parts = urllib.parse.urlsplit(url)
    if parts.username is not None or parts.query or parts.fragment:
        return "credentials and queries are not taken from the URL: use OTEL_EXPORTER_OTLP_HEADERS"
    return None


def _is_url(text: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _of_traces(endpoint: str) -> str:
    """The URL for traces of a collector's base URL."""
    base = endpoint.rstrip("/")
    return base if base.endswith(_TRACES_PATH) else base + _TRACES_PATH


def _shown(endpoint: str, environment: Mapping[str, str]) -> str:
    """Where traces go, without credentials."""
    url = endpoint or next((environment[name] for name in _ENDPOINTS if environment.get(name)), "")
    parts = urllib.parse.urlsplit(url or "http://localhost:4318")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
