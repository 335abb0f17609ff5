"""A small operator, written against kopf and knowing nothing of Headgate: `kopf run operator_of_boats.py`.

It looks after Boats (a kind that comes while it runs) and greets each ModelServer.
"""

from __future__ import annotations

from typing import Any

import kopf

BOATS = "boats.conformance.headgate.dev"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.watching.reconnect_backoff = 0.1
    settings.networking.error_backoffs = [0.1, 0.2, 0.5, 1, 1, 1, 1, 1]
    settings.persistence.finalizer = "conformance.headgate.dev/harbour"


@kopf.on.create(BOATS)
def launch(spec: kopf.Spec, patch: kopf.Patch, body: kopf.Body, **_: Any) -> dict[str, Any]:
    """Names a captain in the status; what it returns is kept under its own name."""
    patch.status["captain"] = f"captain of {spec['cargo']}"
    kopf.info(body, reason="Launched", message=f"carries {spec['cargo']}")
    return {"cargo": spec["cargo"]}


@kopf.on.update(BOATS, field="spec.cargo")
def reload(old: Any, new: Any, patch: kopf.Patch, **_: Any) -> None:
    patch.status["cargo"] = new
    patch.status["before"] = old


@kopf.on.delete(BOATS)
def scrap(retry: int, body: kopf.Body, **_: Any) -> None:
    """Needs a second attempt: until then the finalizer keeps the boat."""
    if retry == 0:
        raise kopf.TemporaryError("still at sea", delay=0.1)
    kopf.info(body, reason="Scrapped", message="no more")


@kopf.timer(BOATS, interval=0.3, idle=0)
def tick(status: kopf.Status, patch: kopf.Patch, **_: Any) -> None:
    if status.get("ticks", 0) < 2:
        patch.status["ticks"] = status.get("ticks", 0) + 1


@kopf.on.create("modelservers.networking.volcano.sh")
def greet(spec: kopf.Spec, patch: kopf.Patch, **_: Any) -> None:
    patch.metadata.annotations["conformance.headgate.dev/greeted"] = spec["inferenceEngine"]
