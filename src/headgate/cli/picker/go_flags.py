"""Flags as Go programs have them: one dash or two, `--flag=false`, durations, labels."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

import click

from headgate.cli.options import Command

log = logging.getLogger(__name__)

_REMOVED = {
    **dict.fromkeys(
        (
            "--total-queued-requests-metric",
            "--total-running-requests-metric",
            "--kv-cache-usage-percentage-metric",
            "--lora-info-metric",
            "--cache-info-metric",
        ),
        "the metrics of each engine are known: set the annotation headgate.dev/engine of the pool instead",
    ),
    **dict.fromkeys(
        (
            "--model-server-metrics-port",
            "--model-server-metrics-path",
            "--model-server-metrics-scheme",
            "--model-server-metrics-https-insecure-skip-verify",
        ),
        "set --engine-metrics-port or --engine-metrics-path, or the annotations prometheus.io/port and "
        "prometheus.io/path of the Pods",
    ),
}
"""Flags of earlier versions of the reference implementation, and what to do instead."""
_LOG = "the log has one format; --v or --log-level set its level"
_IGNORED = {
    "--enable-grpc-stream-metrics": "the metrics always have the number of streams",
    "--enable-pprof": "there is no profiler",
    "--ha-enable-leader-election": "all replicas serve",
    "--health-checking": "the health service is always there",
    "--metrics-endpoint-auth": "the metrics page has no authentication: restrict access by a NetworkPolicy",
    "--zap-devel": _LOG,
}
"""Switches of the reference implementation that change nothing here, and why."""
_IGNORED_WITH_VALUE = {
    "--grpc-max-send-msg-size": "bodies are sent in parts of 62,000 bytes",
    "--refresh-prometheus-metrics-interval": "gauges are read when the metrics page is",
    "--zap-encoder": _LOG,
    "--zap-log-level": _LOG,
    "--zap-stacktrace-level": _LOG,
    "--zap-time-encoding": _LOG,
}
_VERSIONS = {"VersionTLS12": "1.2", "VersionTLS13": "1.3", "1.2": "1.2", "1.3": "1.3"}
_CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
}
"""Go's names of the ciphers of TLS 1.2 that HTTP/2 allows, and OpenSSL's."""
_CIPHERS_OF_1_3 = frozenset(
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
)
"""Always on, as in Go."""
_SINGLE_DASH = re.compile(r"-[A-Za-z][A-Za-z0-9-]+(=.*)?", re.DOTALL)
_LABEL = re.compile(r"[A-Za-z0-9./_-]{1,316}=[A-Za-z0-9._-]{0,63}")
_MAX_PORTS = 8


class GoCommand(click.Command):
    """Flags with one dash or two, as in Go programs. Removed flags are refused with a reason; those that have
    no effect are accepted with a warning."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        left = [f"-{each}" if _SINGLE_DASH.fullmatch(each) else each for each in args]
        taken = []
        while left:
            each = left.pop(0)
            name, has_value, _ = each.partition("=")
            plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
            if (why := _REMOVED.get(plain)) is not None:
                raise click.UsageError(f"{name} is not supported: {why}", ctx)
            if (why := _IGNORED.get(plain) or _IGNORED_WITH_VALUE.get(plain)) is None:
                taken.append(each)
                continue
            log.warning("%s has no effect: %s", name, why)
            if plain in _IGNORED_WITH_VALUE and not has_value and left:
                left.pop(0)
        return super().parse_args(ctx, taken)


def switch(*names: str, default: bool, help: str) -> Callable[[Command], Command]:
    """A flag that may have a value, as in `--secure-serving=false`."""
    return click.option(
        *names, type=bool, is_flag=False, flag_value=True, default=default, metavar="[true|false]", help=help
    )


def selector(_: click.Context, __: click.Parameter, given: str) -> dict[str, str]:
    labels = [each.strip() for each in given.split(",") if each.strip()]
    for each in labels:
        if not _LABEL.fullmatch(each):
            raise click.BadParameter(f"{each[:64]!r}: labels such as app=vllm,tier=gpu are needed")
    return dict(each.split("=", 1) for each in labels)


def ports(_: click.Context, __: click.Parameter, given: str) -> tuple[int, ...]:
    texts = [each.strip() for each in given.split(",") if each.strip()]
    if any(not (each.isascii() and each.isdigit() and 1 <= int(each[:6]) <= 65535) for each in texts):
        raise click.BadParameter(f"{given[:64]!r}: ports from 1 to 65535 are needed, such as 8000,8001")
    if len(texts) > _MAX_PORTS:
        raise click.BadParameter(f"{len(texts)} ports: there may be {_MAX_PORTS}")
    return tuple(map(int, texts))


def duration(_: click.Context, __: click.Parameter, given: str) -> float:
    """Seconds, or a duration of Go such as 30s or 1m30s."""
    from headgate.kubeschema import duration as durations

    try:
        return float(given)
    except ValueError:
        pass
    try:
        return float(durations.parse(given))
    except durations.DurationError as error:
        raise click.BadParameter(f"{given[:32]!r} is not a duration such as 30s or 1m30s") from error


def tls_version(_: click.Context, __: click.Parameter, given: str) -> str:
    """The least version of TLS: 1.2 or 1.3."""
    found = _VERSIONS.get(given)
    if found is None:
        raise click.BadParameter(f"{given[:32]!r}: VersionTLS12 or VersionTLS13 is needed")
    return found


def ciphers(_: click.Context, __: click.Parameter, given: str) -> tuple[str, ...]:
    """Names of OpenSSL for those of Go."""
    found = []
    for each in filter(None, map(str.strip, given.split(","))):
        name = each if each.endswith("_SHA256") or "CHACHA20" not in each else f"{each}_SHA256"
        if name in _CIPHERS:
            found.append(_CIPHERS[name])
        elif name not in _CIPHERS_OF_1_3:
            raise click.BadParameter(f"{each[:64]!r} is not a cipher for HTTP/2; use {', '.join(_CIPHERS)}")
    return tuple(found)


def networks(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    from headgate.dataplane import trust

    if problems := trust.problems(given):
        raise click.BadParameter(problems[0])
    return given
