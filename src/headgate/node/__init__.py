"""Run workloads on one machine: Pods as local processes, and the Deployments, ReplicaSets and
LeaderWorkerSets that manage them.

Decides which Pods exist, where they run and when they are restarted. All input comes from the Kubernetes API;
output is Pod statuses with addresses and readiness, Events, and logs.
"""

from headgate.node.claim_links import ClaimTakenError
from headgate.node.claim_links import link as link_claim
from headgate.node.claim_links import path_of as claim_path
from headgate.node.images import ImagePrograms, ImagesError
from headgate.node.images import parse as parse_images
from headgate.node.kubelet import TlsFiles
from headgate.node.mounts import Mounting
from headgate.node.registration import NodeConfig, Taint
from headgate.node.run import Ready, StateInUseError, run_node

__all__ = [
    "ClaimTakenError",
    "ImagePrograms",
    "ImagesError",
    "Mounting",
    "NodeConfig",
    "Ready",
    "StateInUseError",
    "Taint",
    "TlsFiles",
    "claim_path",
    "link_claim",
    "parse_images",
    "run_node",
]
