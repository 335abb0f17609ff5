"""Shell completion of profiles, workloads and policies, and the list of workloads."""

from __future__ import annotations

import click


def complete_profile(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from headgate.simulator.model import PROFILES

    return [name for name in PROFILES if name.startswith(incomplete)]


def complete_workload(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from headgate.traffic.workloads import WORKLOADS

    return [name for name in WORKLOADS if name.startswith(incomplete)]


def complete_policies(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete the last of several comma-separated names; earlier ones are not offered again."""
    from headgate.scheduling.configuration import NAMES

    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [f"{before}{comma}{name}" for name in NAMES if name.startswith(last) and name not in given]


def list_workloads(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    """The callback of --workloads."""
    if wanted and not context.resilient_parsing:
        from headgate.cli.simulate import traffic

        click.echo(traffic.described())
        context.exit()
