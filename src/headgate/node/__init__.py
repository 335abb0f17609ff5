"""Running workloads on one machine: Pods as local processes, and Deployments and ReplicaSets over them.

Decides which Pods exist, where they run and when they are started again. It is given objects through the
Kubernetes API, and nothing else; it hands on Pod statuses with addresses and readiness, Events, and logs.
"""

from headgate.node.registration import NodeConfig
from headgate.node.run import Ready, StateInUseError, run_node

__all__ = ["NodeConfig", "Ready", "StateInUseError", "run_node"]
