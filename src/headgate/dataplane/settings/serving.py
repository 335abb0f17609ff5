"""Sections about the process: its addresses, workers, objects, end and logs."""

from __future__ import annotations

from typing import Annotated, Literal

from headgate.dataplane.settings.section import DAY_S, Section, port, setting


class Listen(Section, frozen=True):
    """The inference API, which clients connect to."""

    host: Annotated[str, setting("Address of the inference API.", live=False, flag="--host")] = "127.0.0.1"
    port: Annotated[int, port("the inference API", flag="--port")] = 8080


class Metrics(Section, frozen=True):
    """The metrics page."""

    host: Annotated[str, setting("Address of the metrics page.", live=False)] = "127.0.0.1"
    port: Annotated[int, port("the metrics page")] = 9090


class Admin(Section, frozen=True):
    """The health and debug pages. They have no authentication."""

    host: Annotated[str, setting("Address of the health and debug pages.", live=False)] = "127.0.0.1"
    port: Annotated[int, port("the health and debug pages")] = 8081


class Workers(Section, frozen=True):
    """Worker processes, which share the connections."""

    count: Annotated[
        int, setting("Number of worker processes.", live=False, ge=1, le=256, flag="--workers")
    ] = 1
    hang_s: Annotated[
        float,
        setting(
            "A worker whose event loop is stuck for this long is killed and replaced; 0 means never.",
            ge=0,
            le=DAY_S,
        ),
    ] = 60.0


class Kubernetes(Section, frozen=True):
    """The API server that routes, pools and endpoints are read from."""

    kubeconfig: Annotated[
        str | None,
        setting(
            "Kubeconfig of the API server. Without it: the in-cluster account, then $KUBECONFIG, then "
            "~/.kube/config.",
            live=False,
            flag="--kubeconfig",
        ),
    ] = None
    namespaces: Annotated[
        tuple[str, ...],
        setting(
            "Read only the objects of these namespaces; without any, of all.", live=False, flag="--namespace"
        ),
    ] = ()


class Shutdown(Section, frozen=True):
    """Stopping and upgrading."""

    lameduck_s: Annotated[
        float,
        setting(
            "After the signal to stop, how long new connections are still served while readiness fails.",
            ge=0,
            le=3600,
        ),
    ] = 0.0
    drain_s: Annotated[float, setting("After that, time for running requests to finish.", ge=0, le=DAY_S)] = (
        30.0
    )
    retire_s: Annotated[
        float,
        setting("In an upgrade, time for the requests of a replaced worker to finish.", ge=0, le=DAY_S),
    ] = 600.0


class Logging(Section, frozen=True):
    """Logs."""

    level: Annotated[
        Literal["debug", "info", "warning", "error"], setting("Least severity written to standard error.")
    ] = "info"
    access_log: Annotated[
        Literal["text", "json", "off"],
        setting("Format of the line written to standard output for each request."),
    ] = "text"
