"""Section about objects that do not come from an API server."""

from __future__ import annotations

from typing import Annotated

from headgate.dataplane.settings import Section, setting

HOUR_S = 3600.0


class Objects(Section, frozen=True):
    """Routes, pools and endpoints without an API server: from URLs of engines, and from files."""

    endpoints: Annotated[
        tuple[str, ...],
        setting(
            "URL of an engine, whose models are served; a srv:// URL is all servers of a DNS service. A name "
            "may precede it, and options may follow it: NAME=URL,weight=2,role=prefill.",
            flag="--endpoint",
        ),
    ] = ()
    files: Annotated[
        tuple[str, ...],
        setting(
            "File or directory of objects in YAML or JSON, as for an API server. Changes act at once.",
            flag="--objects",
        ),
    ] = ()
    ask_s: Annotated[
        float, setting("Interval between two reads of the model list of an engine.", ge=0.1, le=HOUR_S)
    ] = 2.0
    resolve_s: Annotated[
        float,
        setting(
            "Longest interval between two lookups of a host name; less if its DNS records expire sooner.",
            ge=0.5,
            le=HOUR_S,
        ),
    ] = 10.0
    dns_servers: Annotated[
        tuple[str, ...],
        setting(
            "Addresses of DNS servers for the host names of endpoints, such as 10.0.0.2 or 10.0.0.2:8600; "
            "without any, those of the system.",
        ),
    ] = ()

    @property
    def are_given(self) -> bool:
        """Whether objects come from here, and not from an API server."""
        return bool(self.endpoints or self.files)
