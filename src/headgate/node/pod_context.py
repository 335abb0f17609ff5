"""What the parts of a Pod's worker share."""

from __future__ import annotations

import random
from dataclasses import dataclass

from headgate import cluster
from headgate.api.marks import Address
from headgate.node import log_files, processes
from headgate.node.images import ImagePrograms
from headgate.node.mounts import Mounting
from headgate.node.pod_directories import PodDirectories
from headgate.node.references import FollowedReferences
from headgate.node.registration import Identity


@dataclass(frozen=True)
class Tools:
    """Shared by all Pods of a node."""

    client: cluster.Client
    events: cluster.EventRecorder
    runner: processes.ProcessRunner
    logs: log_files.LogDirectory
    identity: Identity
    rng: random.Random
    directories: PodDirectories
    followed: FollowedReferences
    mounting: Mounting
    images: ImagePrograms


@dataclass(frozen=True)
class Placement:
    """The addresses of the Pod."""

    pod_ip: str
    port: int | None = None
    """The single port of the Pod, if it has no address of its own."""
    server: Address | None = None
    """The external server that the Pod represents."""
