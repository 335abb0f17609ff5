"""The settings of a picker from its flags."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from headgate.cli import validation
from headgate.cli.gateway import scheduler
from headgate.dataplane import settings as sections
from headgate.picker.settings import Choices, Listening, PickerSettings, PoolNames
from headgate.scheduling import configuration
from headgate.telemetry.tracing import environment as environment_of_traces


def listening(given: Mapping[str, Any]) -> Listening:
    """Where the command listens, by the flags that pickers and body routers have in common."""
    return Listening(
        host=given["host"],
        grpc_port=given["grpc_port"],
        health_port=given["grpc_health_port"],
        metrics_port=given["metrics_port"],
        is_secure=given["secure_serving"],
        cert_path=given["cert_path"],
        page_token_file=given["page_token_file"],
    )


def from_flags(kubeconfig: Path | None, given: Mapping[str, Any]) -> PickerSettings:
    """Raises click.ClickException for what does not go together."""

    if bool(given["endpoint_selector"]) != bool(given["endpoint_target_ports"]):
        raise click.UsageError("--endpoint-selector and --endpoint-target-ports go together")
    if given["endpoint_selector"] and given["pool_names"]:
        raise click.UsageError("--endpoint-selector replaces --pool-name: remove one of them")
    interval_s = max(given["refresh_metrics_interval"], 0.05)
    scheduling = _scheduling(given)
    allows_alpha = scheduling.allow_experimental_plugins
    return PickerSettings(
        pools=PoolNames(
            names=given["pool_names"],
            namespace=given["pool_namespace"],
            group=given["pool_group"],
            selector=given["endpoint_selector"],
            ports=given["endpoint_target_ports"],
            unknown=given["unknown_models"],
        ),
        listening=msgspec.structs.replace(
            listening(given),
            tls_min_version=given["tls_min_version"],
            tls_ciphers=given["tls_cipher_suites"],
            reload_s=Listening().reload_s if given["enable_cert_reload"] else 0.0,
            max_message_bytes=given["grpc_max_recv_msg_size"],
        ),
        choices=Choices(
            body_mode=given["body_mode"],
            fallbacks=given["fallback_endpoints"],
            max_body_bytes=given["max_body_bytes"],
            uses_subset=not given["disable_endpoint_subset_filter"],
            error_format=given["error_format"],
            asks_for_usage=given["stream_usage"],
            passes_bodies=scheduling.content is not None
            and configuration.read(scheduling.content, allow_alpha=allows_alpha).passes_bodies,
            emits_scores=given["emit_endpoint_scores"],
            explains_to=given["explain_to"] or Choices().explains_to,
            is_conformance=given["conformance_headers"],
        ),
        kubernetes=sections.Kubernetes(kubeconfig=str(kubeconfig) if kubeconfig is not None else None),
        engine_metrics=sections.EngineMetrics(
            interval_s=interval_s,
            busy_interval_s=max(interval_s / 10, 0.01),
            stale_s=given["metrics_staleness_threshold"],
            path=given["engine_metrics_path"],
            port=given["engine_metrics_port"],
        ),
        queue=sections.Queue(
            enabled=given["flow_control"], objectives_from="anyone", fairness_ids_from="anyone"
        ),
        scheduling=scheduling,
        logging=sections.Logging(access_log=given["access_log"]),
        peers=sections.Peers(
            addresses=given["peers"],
            discovery=given["peers_discovery"],
            host=given["peers_host"],
            port=given["peers_port"],
            advertise=given["peers_advertise"],
            token_file=given["peers_token_file"],
        ),
        tracing=_tracing(given),
        drain_s=given["drain_timeout"],
    )


def _tracing(given: Mapping[str, Any]) -> sections.Tracing | None:
    endpoint = given["tracing_endpoint"]
    if not given["tracing"]:
        return None
    if problems := environment_of_traces.problems(endpoint, os.environ):
        raise click.ClickException("; ".join(problems))
    if told := environment_of_traces.ignored_exporters(endpoint, os.environ):
        logging.getLogger(__name__).warning("%s: %s", environment_of_traces.EXPORTER, told)
    # The proxy decides, which has a trace of its own.
    return sections.Tracing(
        endpoint=endpoint, sample_ratio=given["tracing_sample_ratio"], sampled_from="anyone"
    )


def _scheduling(given: Mapping[str, Any]) -> sections.Scheduling:
    """The scheduling section, with the checked content of the EndpointPickerConfig."""

    if given["config_file"] and given["config_text"]:
        raise click.UsageError("--config-text replaces --config-file: remove one of them")
    section = sections.Scheduling(
        policy=given["scheduling_policy"],
        config_file=given["config_file"],
        allow_experimental_plugins=given["allow_experimental_plugins"],
    )
    if not given["config_text"]:
        said = scheduler.read(section, authenticates=False)
    else:
        said = scheduler.read(
            msgspec.structs.replace(section, config_file="--config-text"),
            given["config_text"],
            authenticates=False,
        )
    if said.unreadable:
        raise click.ClickException(f"{given['config_file']}: {said.unreadable}")
    if said.errors:
        raise click.ClickException(validation.paragraphs([*said.errors, *said.others], said.lines))
    for finding in said.others:
        level = scheduler.LEVELS[finding.severity]
        logging.getLogger(__name__).log(level, "%s", click.unstyle(validation.line(finding)))
    return msgspec.structs.replace(section, content=said.content)
