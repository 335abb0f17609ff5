"""The core kinds of Kubernetes, limited to the fields that Headgate uses.

`kubernetes` has their complete schemas.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from headgate.api.containers import Affinity, EnvFromSource, EnvVar, ResourceRequirements, Toleration
from headgate.api.meta import Condition, ObjectMeta, Part, Resource, described

IntOrString = int | str


class Namespace(Part, frozen=True, kw_only=True):
    """Namespace is a scope for names."""

    resource: ClassVar[Resource] = Resource("", "v1", "Namespace", "namespaces", namespaced=False)

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[dict[str, Any], described("Finalizers that keep the namespace from going.")] = {}
    status: Annotated[dict[str, Any], described("The phase, Active or Terminating.")] = {}


class ContainerPort(Part, frozen=True, kw_only=True):
    container_port: Annotated[int, msgspec.Meta(ge=1, le=65535), described("Port on the Pod's address.")]
    name: Annotated[str, described("Name by which probes and services refer to the port.")] = ""
    protocol: Annotated[str, described("TCP, UDP or SCTP.")] = "TCP"


class HTTPHeader(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the header.")]
    value: Annotated[str, described("Value of the header.")] = ""


class HTTPGetAction(Part, frozen=True, kw_only=True):
    port: Annotated[
        IntOrString, described("Number or name of the port.", **{"x-kubernetes-int-or-string": True})
    ]
    path: Annotated[str, described("Path to ask for.")] = "/"
    host: Annotated[str, described("Host to connect to instead of the Pod's address.")] = ""
    scheme: Annotated[str, described("HTTP or HTTPS.")] = "HTTP"
    http_headers: Annotated[list[HTTPHeader], described("Extra headers of the request.")] = []


class TCPSocketAction(Part, frozen=True, kw_only=True):
    port: Annotated[
        IntOrString, described("Number or name of the port.", **{"x-kubernetes-int-or-string": True})
    ]
    host: Annotated[str, described("Host to connect to instead of the Pod's address.")] = ""


class Probe(Part, frozen=True, kw_only=True):
    http_get: Annotated[HTTPGetAction | None, described("Healthy if this request answers 200 to 399.")] = None
    tcp_socket: Annotated[TCPSocketAction | None, described("Healthy if this port takes a connection.")] = (
        None
    )
    initial_delay_seconds: Annotated[int, described("Wait this long after the start.")] = 0
    period_seconds: Annotated[int, described("Ask this often.")] = 10
    timeout_seconds: Annotated[int, described("An answer may take this long.")] = 1
    success_threshold: Annotated[int, described("Successes in a row that make it healthy.")] = 1
    failure_threshold: Annotated[int, described("Failures in a row that make it unhealthy.")] = 3


class Container(Part, frozen=True, kw_only=True):
    name: Annotated[
        str,
        msgspec.Meta(pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63),
        described("Name of the container, unique in the Pod."),
    ]
    image: Annotated[str, described("Image that has the program.")] = ""
    command: Annotated[list[str], described("The program and its first arguments.")] = []
    args: Annotated[list[str], described("Further arguments; $(NAME) stands for a variable.")] = []
    working_dir: Annotated[str, described("Directory that the program starts in.")] = ""
    env: Annotated[
        list[EnvVar],
        described(
            "Environment of the program.",
            **{"x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"},
        ),
    ] = []
    env_from: Annotated[
        list[EnvFromSource], described("ConfigMaps and Secrets whose keys become its environment too.")
    ] = []
    resources: Annotated[ResourceRequirements, described("What the container needs and may use.")] = (
        ResourceRequirements()
    )
    ports: Annotated[
        list[ContainerPort],
        described(
            "Ports that the program listens on.",
            **{"x-kubernetes-patch-merge-key": "containerPort", "x-kubernetes-patch-strategy": "merge"},
        ),
    ] = []
    readiness_probe: Annotated[Probe | None, described("Whether the container may get traffic.")] = None
    liveness_probe: Annotated[Probe | None, described("Whether the container must be started again.")] = None
    startup_probe: Annotated[Probe | None, described("Whether the container has started at all.")] = None


_BY_NAME = {"x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}
_UNIQUE_BY_NAME = {**_BY_NAME, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
_BY_TYPE = {"x-kubernetes-patch-merge-key": "type", "x-kubernetes-patch-strategy": "merge"}


class PodSpec(Part, frozen=True, kw_only=True):
    containers: Annotated[list[Container], described("Programs that run together.", **_UNIQUE_BY_NAME)] = []
    init_containers: Annotated[
        list[Container],
        described("Programs that must end well, one after the other, before.", **_UNIQUE_BY_NAME),
    ] = []
    node_name: Annotated[str, described("Node that the Pod runs on.")] = ""
    restart_policy: Annotated[
        Literal["Always", "OnFailure", "Never"], described("When an ended container starts again.")
    ] = "Always"
    termination_grace_period_seconds: Annotated[
        int, described("Seconds between the request to end and the kill.")
    ] = 30
    service_account_name: Annotated[str, described("Identity that the Pod runs as.")] = ""
    node_selector: Annotated[dict[str, str], described("Labels that the node must have.")] = {}
    affinity: Annotated[Affinity | None, described("Which nodes suit, and near which Pods.")] = None
    tolerations: Annotated[list[Toleration], described("Taints of nodes that don't matter.")] = []


class ContainerStateRunning(Part, frozen=True, kw_only=True):
    started_at: Annotated[str | None, described("When the container started.")] = None


class ContainerStateWaiting(Part, frozen=True, kw_only=True):
    reason: Annotated[str, described("Why it waits, in one word.")] = ""
    message: Annotated[str, described("Why it waits.")] = ""


class ContainerStateTerminated(Part, frozen=True, kw_only=True):
    exit_code: Annotated[int, described("What the program exited with.")] = 0
    signal: Annotated[int | None, described("Signal that ended it.")] = None
    reason: Annotated[str, described("Why it ended, in one word.")] = ""
    message: Annotated[str, described("Why it ended.")] = ""
    started_at: Annotated[str | None, described("When the container started.")] = None
    finished_at: Annotated[str | None, described("When the container ended.")] = None


class ContainerState(Part, frozen=True, kw_only=True):
    running: ContainerStateRunning | None = None
    waiting: ContainerStateWaiting | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Part, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    ready: bool = False
    restart_count: int = 0
    started: bool = False
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodIP(Part, frozen=True, kw_only=True):
    ip: str = ""


class PodStatus(Part, frozen=True, kw_only=True):
    phase: Annotated[str, described("Pending, Running, Succeeded, Failed or Unknown.")] = ""
    conditions: Annotated[list[Condition], described("PodScheduled, Initialized, Ready.", **_BY_TYPE)] = []
    message: Annotated[str, described("Why the Pod is in this phase.")] = ""
    reason: Annotated[str, described("The same in one word.")] = ""
    pod_ip: Annotated[str, described("Address of the Pod.")] = msgspec.field(default="", name="podIP")
    pod_ips: Annotated[list[PodIP], described("Addresses of the Pod, one per family.")] = msgspec.field(
        default_factory=list, name="podIPs"
    )
    host_ip: Annotated[str, described("Address of its node.")] = msgspec.field(default="", name="hostIP")
    start_time: Annotated[str | None, described("When the node took the Pod.")] = None
    container_statuses: Annotated[list[ContainerStatus], described("State of each container.")] = []
    init_container_statuses: Annotated[list[ContainerStatus], described("State of each init container.")] = []

    @property
    def ready(self) -> bool:
        """Whether the Ready condition holds."""
        return any(each.type == "Ready" and each.status == "True" for each in self.conditions)


class Pod(Part, frozen=True, kw_only=True):
    """Pod is one instance of a workload: programs that share an address."""

    resource: ClassVar[Resource] = Resource("", "v1", "Pod", "pods")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[PodSpec, described("What runs.")] = PodSpec()
    status: Annotated[PodStatus, described("What is observed.")] = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether the Pod may get traffic: its Ready condition holds, it is not being deleted, and it has not
        ended, which a node that evicts it may report without a word about Ready."""
        return self.metadata.deletion_timestamp is None and not self.ended and self.status.ready

    @property
    def ended(self) -> bool:
        """Whether the Pod has ended for good, successfully or not."""
        return self.status.phase in ("Succeeded", "Failed")


class Service(Part, frozen=True, kw_only=True):
    """Service is a stable name for a set of Pods."""

    resource: ClassVar[Resource] = Resource("", "v1", "Service", "services")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[dict[str, Any], described("Selector and ports.")] = {}
    status: Annotated[dict[str, Any], described("What is observed.")] = {}


class ConfigMap(Part, frozen=True, kw_only=True):
    """ConfigMap holds configuration in keys and values."""

    resource: ClassVar[Resource] = Resource("", "v1", "ConfigMap", "configmaps")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    data: Annotated[dict[str, str], described("Text by key.")] = {}
    binary_data: Annotated[dict[str, str], described("Base64 bytes by key.")] = {}
    immutable: Annotated[bool | None, described("Whether data may never change.")] = None


class Secret(Part, frozen=True, kw_only=True):
    """Secret holds confidential bytes in keys and values."""

    resource: ClassVar[Resource] = Resource("", "v1", "Secret", "secrets")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    type: Annotated[str, described("What kind of secret it is.")] = ""
    data: Annotated[dict[str, str], described("Base64 bytes by key.")] = {}
    string_data: Annotated[dict[str, str], described("Text by key; the server stores it under data.")] = {}
    immutable: Annotated[bool | None, described("Whether data may never change.")] = None


class ServiceAccount(Part, frozen=True, kw_only=True):
    """ServiceAccount is an identity for Pods."""

    resource: ClassVar[Resource] = Resource("", "v1", "ServiceAccount", "serviceaccounts")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class NodeSpec(Part, frozen=True, kw_only=True):
    unschedulable: Annotated[bool | None, described("Whether new Pods stay away.")] = None


class NodeAddress(Part, frozen=True, kw_only=True):
    type: str
    address: str


class NodeStatus(Part, frozen=True, kw_only=True):
    conditions: Annotated[list[Condition], described("Ready and others.", **_BY_TYPE)] = []
    addresses: Annotated[list[NodeAddress], described("How the node is reached.", **_BY_TYPE)] = []
    node_info: Annotated[dict[str, Any], described("Versions of the machine's software.")] = {}
    allocatable: Annotated[dict[str, Any], described("Quantities of resources that Pods may use.")] = {}


class Node(Part, frozen=True, kw_only=True):
    """Node is a machine that runs Pods."""

    resource: ClassVar[Resource] = Resource("", "v1", "Node", "nodes", namespaced=False)

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[NodeSpec, described("What is wanted of the node.")] = NodeSpec()
    status: Annotated[NodeStatus, described("What is observed.")] = NodeStatus()


class ObjectReference(Part, frozen=True, kw_only=True):
    api_version: Annotated[str, described("Version of the object's API.")] = ""
    kind: Annotated[str, described("Kind of the object.")] = ""
    name: Annotated[str, described("Name of the object.")] = ""
    namespace: Annotated[str, described("Namespace of the object.")] = ""
    uid: Annotated[str, described("UID of the object.")] = ""
    resource_version: Annotated[str, described("Version of the object that is meant.")] = ""
    field_path: Annotated[str, described("Part of the object that is meant.")] = ""


class LocalObjectReference(Part, frozen=True, kw_only=True):
    name: Annotated[str, described("Name of the object, in the same namespace.")] = ""


class EventSource(Part, frozen=True, kw_only=True):
    component: str = ""
    host: str = ""


class Event(Part, frozen=True, kw_only=True):
    """Event reports something that happened to an object."""

    resource: ClassVar[Resource] = Resource("", "v1", "Event", "events")

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    involved_object: Annotated[ObjectReference, described("What it happened to.")] = ObjectReference()
    reason: Annotated[str, described("What happened, in one word.")] = ""
    message: Annotated[str, described("What happened.")] = ""
    type: Annotated[str, described("Normal or Warning.")] = ""
    count: Annotated[int, described("How often.")] = 0
    first_timestamp: Annotated[str | None, described("When first.")] = None
    last_timestamp: Annotated[str | None, described("When last.")] = None
    event_time: Annotated[str | None, described("When, to the microsecond.")] = None
    source: Annotated[EventSource, described("Who reports it.")] = EventSource()
    reporting_component: Annotated[str, described("Who reports it.")] = ""
    reporting_instance: Annotated[str, described("Which instance reports it.")] = ""
    action: Annotated[str, described("What was done.")] = ""
