"""What an account has asked of the API server, as its audit log shows."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any


def requests_of(cluster: Any, user: str) -> Iterator[dict[str, Any]]:
    """All requests for objects."""
    for line in (cluster.state / "audit.log").read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # the last line may be incomplete
            event = json.loads(line)
            if event["user"]["username"] == user and "objectRef" in event:
                yield event


def forbidden(cluster: Any, user: str) -> list[str]:
    """Denied by RBAC. An event in a namespace that is being deleted is denied, too, but by admission."""
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in requests_of(cluster, user)
        if event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    ]
