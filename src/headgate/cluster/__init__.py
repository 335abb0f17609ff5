"""The Kubernetes API client: connections, typed requests, informers and work queues.

Keeps a local copy of the API server's state current, and writes back, whatever fails in between. Input: a
kubeconfig and kinds from `headgate.api`. Output: a typed `Client`, `Informer`s (local copies that report
every change) and the `WorkQueue` for controllers. All reading of objects goes through it, on a laptop as in a
cluster.
"""

from lightkube.types import CascadeType, PatchType

from headgate.cluster.client import Client, Json
from headgate.cluster.election import Election, Leadership, Terms, Undisputed
from headgate.cluster.errors import (
    AlreadyExists,
    ApiError,
    ConfigurationError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    StatusCause,
    Unreachable,
)
from headgate.cluster.events import EventRecorder, EventStatistics, EventType
from headgate.cluster.informer import Informer, InformerStatistics, Pacing, scopes
from headgate.cluster.kubeconfig import named as kubeconfigs_named
from headgate.cluster.local_objects import LocalObjects, Source
from headgate.cluster.named import NamedObjects
from headgate.cluster.outage import Backoff
from headgate.cluster.presence import Presence
from headgate.cluster.rights import Denied
from headgate.cluster.store import Change, ChangeKind, KubeObject
from headgate.cluster.transport import Answer
from headgate.cluster.workqueue import DueKeys, WorkQueue, WorkQueueStatistics, run_workers

__all__ = [
    "AlreadyExists",
    "Answer",
    "ApiError",
    "Backoff",
    "CascadeType",
    "Change",
    "ChangeKind",
    "Client",
    "ConfigurationError",
    "Conflict",
    "Denied",
    "DueKeys",
    "Election",
    "EventRecorder",
    "EventStatistics",
    "EventType",
    "Forbidden",
    "Gone",
    "Informer",
    "InformerStatistics",
    "Invalid",
    "Json",
    "KubeObject",
    "Leadership",
    "LocalObjects",
    "NamedObjects",
    "NotFound",
    "Pacing",
    "PatchType",
    "Presence",
    "Source",
    "StatusCause",
    "Terms",
    "Undisputed",
    "Unreachable",
    "WorkQueue",
    "WorkQueueStatistics",
    "kubeconfigs_named",
    "run_workers",
    "scopes",
]
