"""Update the tables of docs/metrics.md and docs/access-log.md: `python tools/telemetry_tables.py`.

They are generated from what the code registers and logs, so that the pages always have the right names.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from headgate import cluster
from headgate.apiserver.handlers.health import FAMILIES
from headgate.controllers import pages
from headgate.controllers.autoscaling import AutoscalingController
from headgate.controllers.model import ModelController
from headgate.controllers.planning import PlanningController
from headgate.controllers.statuses import StatusController
from headgate.dataplane import tracing
from headgate.dataplane.records.access_fields import FIELDS
from headgate.dataplane.records.recorder import PREFIX, Recorder
from headgate.gateway import GatewaySettings, gauges
from headgate.gateway.shell import Shell
from headgate.telemetry import Registry, add_process_metrics, sums
from headgate.telemetry.sums import Family
from headgate.workers.configuration import Configuration
from headgate.workers.supervisor import Supervisor

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = (DOCS / "metrics.md", DOCS / "access-log.md")
_METRICS_HEAD = "| name | type | labels | description |\n| --- | --- | --- | --- |\n"
_TABLE = re.compile(r"(<!-- table of (\w+) -->\n)(.*?)(<!-- end of table -->)", re.S)


def rendered(text: str) -> str:
    """The page with current tables."""
    tables = {
        "metrics": metrics_table,
        "controller": controller_table,
        "apiserver": apiserver_table,
        "fields": fields_table,
    }
    return _TABLE.sub(lambda found: found[1] + "".join(tables[found[2]]()) + found[4], text)


def families() -> list[Family]:
    """Every metric of a gateway, by name, including those of its supervisor."""
    return asyncio.run(_families())


async def _families() -> list[Family]:
    registry = Registry()
    settings = GatewaySettings().replace(listen_port=0, metrics_port=0, admin_port=0)
    recorder = Recorder(registry, None)
    shell = Shell(settings, recorder, asyncio.get_running_loop())
    gauges.add_gauges(registry, shell)
    tracing.add_metrics(registry, None, PREFIX)
    add_process_metrics(registry)
    supervisor = Supervisor(Configuration(lambda: settings, None, registry), registry)
    supervisor.sockets.close()
    found = sums.families(registry)
    await shell.close()
    return sorted(found, key=lambda family: family.name)


def metrics_table() -> Iterator[str]:
    return _rows(families())


def controller_table() -> Iterator[str]:
    return _rows(controller_families())


def controller_families() -> list[Family]:
    """Every metric of a controller, by name."""
    return asyncio.run(_of_controller())


async def _of_controller() -> list[Family]:
    async with cluster.Client.from_url("http://localhost") as client:
        statistics = StatusController(client).statistics, ModelController(client).statistics
        scaling = AutoscalingController(client)
        planning = PlanningController(client, scaling)
        registry = pages.metrics(*statistics, scaling, planning, cluster.Undisputed())
        own = [
            each
            for each in sums.families(registry)
            if each.name.startswith(("headgate_controller_", "inferno_"))
        ]
        return sorted(own, key=lambda family: family.name)


def _rows(families: Iterable[Family]) -> Iterator[str]:
    yield _METRICS_HEAD
    for family in families:
        suffix = "_total" if family.kind == "counter" else ""
        labels = ", ".join(family.label_names)
        yield f"| `{family.name}{suffix}` | {family.kind} | {labels} | {_escaped(family.help)} |\n"


def apiserver_table() -> Iterator[str]:
    yield _METRICS_HEAD
    for family in FAMILIES:
        labels = ", ".join(family.labels)
        yield f"| `{family.name}` | {family.kind} | {labels} | {_escaped(family.help)} |\n"


def fields_table() -> Iterator[str]:
    yield "| JSON | type | in text | description |\n| --- | --- | --- | --- |\n"
    for field in FIELDS:
        text = f"`{field.text}=`" if field.text.isidentifier() and field.text != "number" else field.text
        yield f"| `{field.name}` | {field.type} | {text} | {_escaped(field.meaning)} |\n"


def _escaped(text: str) -> str:
    return text.replace("|", r"\|")


def main() -> None:
    """Write the pages that changed."""
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = rendered(old)
        if new != old:
            page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
