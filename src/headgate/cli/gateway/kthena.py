"""Environment of Kthena's router: queue settings that the gateway reads, and warnings for the rest."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headgate.cli.validation import Finding
from headgate.flow import configuration

_INSTEAD = {
    "ACCESS_LOG_ENABLED": "use the setting logging.access_log",
    "ACCESS_LOG_FORMAT": "use the setting logging.access_log",
    "ACCESS_LOG_OUTPUT": "the access log goes to standard output",
    "DRAIN_TIMEOUT": "use the setting shutdown.drain_s",
    "METRICS_SCRAPE_INTERVAL": "use the setting engine_metrics.interval_s",
    "REDIS_HOST": "each ModelRoute names the Redis that counts its limit",
}
"""Variables that the router reads and the gateway does not."""


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """Queue settings in the environment, and findings about them."""

    environment: dict[str, str] = {}
    """Empty if it enables no queue."""
    errors: list[Finding] = []
    others: list[Finding] = []


def read(environment: Mapping[str, str]) -> Said:
    """Read the variables of Kthena's queues from an environment."""
    named = {name: environment[name] for name in configuration.ENVIRONMENT if name in environment}
    problems = configuration.Problems()
    queueing = configuration.of_kthena(named, problems)
    for name, instead in _INSTEAD.items():
        if environment.get(name):
            problems.warning(name, "the gateway does not read it", instead)
    findings = [
        Finding(
            file="environment",
            severity=problem.severity,
            message=problem.message,
            span=None,
            path=problem.path,
            suggestion=problem.suggestion,
        )
        for problem in problems.found
    ]
    return Said(
        environment=named if queueing is not None else {},
        errors=[finding for finding in findings if finding.severity == "error"],
        others=[finding for finding in findings if finding.severity != "error"],
    )
