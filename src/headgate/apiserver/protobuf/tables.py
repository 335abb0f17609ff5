"""Field numbers of Kubernetes' messages, for the kinds that its own clients send as protobuf.

The numbers are those of the `generated.proto` files of k8s.io/api and k8s.io/apimachinery; they never change.
Each line is a message: each field has its number, its name and, unless it is a string, its type. `[]` marks a
list and `{}` a map from strings; `&Type` is a message whose fields JSON has inline; `?` marks a pointer,
whose zero is a value. Unlisted fields are rejected, never dropped.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

Form = Literal["one", "list", "map", "inline"]


class Field(NamedTuple):
    """One field of a message, as in JSON."""

    name: str
    type: str
    form: Form
    pointer: bool


_FIELD = re.compile(
    r"(?P<number>\d+) "
    r"(?:&(?P<inline>\w+)|(?P<name>\w+)(?P<form>\[\]|\{\})?(?::(?P<type>\w+))?(?P<pointer>\?)?)"
)
_FORMS: dict[str | None, Form] = {None: "one", "[]": "list", "{}": "map"}


def _field(text: str) -> tuple[int, Field]:
    match = _FIELD.fullmatch(text)
    assert match, f"the table has {text!r}"
    if inline := match["inline"]:
        return int(match["number"]), Field("", inline, "inline", False)
    form, type_ = _FORMS[match["form"]], match["type"] or "string"
    return int(match["number"]), Field(match["name"], type_, form, bool(match["pointer"]))


def _parse(tables: str) -> dict[str, dict[int, Field]]:
    messages = {}
    for line in filter(None, (line.strip() for line in tables.splitlines())):
        name, _, fields = line.partition(": ")
        messages[name] = dict(_field(field) for field in fields.split(", "))
    return messages


KINDS = {
    ("v1", "ConfigMap"): "ConfigMap",
    ("v1", "Event"): "Event",
    ("v1", "Namespace"): "Namespace",
    ("v1", "Pod"): "Pod",
    ("v1", "Secret"): "Secret",
    ("v1", "Service"): "Service",
    ("v1", "ServiceAccount"): "ServiceAccount",
    ("v1", "DeleteOptions"): "DeleteOptions",
    ("v1", "Binding"): "Binding",
    ("policy/v1", "Eviction"): "Eviction",
    ("apps/v1", "Deployment"): "Deployment",
    ("apps/v1", "ReplicaSet"): "ReplicaSet",
    ("authentication.k8s.io/v1", "SelfSubjectReview"): "SelfSubjectReview",
    ("authentication.k8s.io/v1", "TokenRequest"): "TokenRequest",
    ("authentication.k8s.io/v1", "TokenReview"): "TokenReview",
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): "SelfSubjectAccessReview",
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): "SelfSubjectRulesReview",
    ("autoscaling/v1", "HorizontalPodAutoscaler"): "HorizontalPodAutoscalerV1",
    ("autoscaling/v1", "Scale"): "Scale",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "HorizontalPodAutoscaler",
    ("coordination.k8s.io/v1", "Lease"): "Lease",
}
"""The message of each (apiVersion, kind)."""

_META = """
Unknown: 1 typeMeta:TypeMeta, 2 raw:bytes, 3 contentEncoding, 4 contentType
TypeMeta: 1 apiVersion, 2 kind
Raw: 1 raw:bytes
Time: 1 seconds:int, 2 nanos:int
Quantity: 1 string
IntOrString: 1 type:int, 2 intVal:int, 3 strVal
ObjectMeta: 1 name, 2 generateName, 3 namespace, 4 selfLink, 5 uid, 6 resourceVersion, 7 generation:int, 8 creationTimestamp:Time, 9 deletionTimestamp:Time, 10 deletionGracePeriodSeconds:int?, 11 labels{}, 12 annotations{}, 13 ownerReferences[]:OwnerReference, 14 finalizers[], 17 managedFields[]:ManagedFieldsEntry
OwnerReference: 1 kind, 3 name, 4 uid, 5 apiVersion, 6 controller:bool?, 7 blockOwnerDeletion:bool?
ManagedFieldsEntry: 1 manager, 2 operation, 3 apiVersion, 4 time:Time, 6 fieldsType, 7 fieldsV1:JSON, 8 subresource
LabelSelector: 1 matchLabels{}, 2 matchExpressions[]:LabelSelectorRequirement
LabelSelectorRequirement: 1 key, 2 operator, 3 values[]
Condition: 1 type, 2 status, 3 observedGeneration:int, 4 lastTransitionTime:Time, 5 reason, 6 message
DeleteOptions: 1 gracePeriodSeconds:int?, 2 preconditions:Preconditions, 3 orphanDependents:bool?, 4 propagationPolicy?, 5 dryRun[]
Preconditions: 1 uid?, 2 resourceVersion?
Eviction: 1 metadata:ObjectMeta, 2 deleteOptions:DeleteOptions
Binding: 1 metadata:ObjectMeta, 2 target:ObjectReference
"""  # noqa: E501 - one message a line, as in the text above

_CORE = """
ConfigMap: 1 metadata:ObjectMeta, 2 data{}, 3 binaryData{}:bytes, 4 immutable:bool?
Secret: 1 metadata:ObjectMeta, 2 data{}:bytes, 3 type, 4 stringData{}, 5 immutable:bool?
Namespace: 1 metadata:ObjectMeta, 2 spec:NamespaceSpec, 3 status:NamespaceStatus
NamespaceSpec: 1 finalizers[]
NamespaceStatus: 1 phase, 2 conditions[]:NamespaceCondition
NamespaceCondition: 1 type, 2 status, 4 lastTransitionTime:Time, 5 reason, 6 message
ServiceAccount: 1 metadata:ObjectMeta, 2 secrets[]:ObjectReference, 3 imagePullSecrets[]:LocalObjectReference, 4 automountServiceAccountToken:bool?
ObjectReference: 1 kind, 2 namespace, 3 name, 4 uid, 5 apiVersion, 6 resourceVersion, 7 fieldPath
LocalObjectReference: 1 name
Event: 1 metadata:ObjectMeta, 2 involvedObject:ObjectReference, 3 reason, 4 message, 5 source:EventSource, 6 firstTimestamp:Time, 7 lastTimestamp:Time, 8 count:int, 9 type, 10 eventTime:MicroTime, 11 series:EventSeries, 12 action, 13 related:ObjectReference, 14 reportingComponent, 15 reportingInstance
EventSource: 1 component, 2 host
EventSeries: 1 count:int, 2 lastObservedTime:MicroTime
Service: 1 metadata:ObjectMeta, 2 spec:ServiceSpec, 3 status:ServiceStatus
ServiceSpec: 1 ports[]:ServicePort, 2 selector{}, 3 clusterIP, 4 type, 5 externalIPs[], 7 sessionAffinity, 8 loadBalancerIP, 9 loadBalancerSourceRanges[], 10 externalName, 11 externalTrafficPolicy, 12 healthCheckNodePort:int, 13 publishNotReadyAddresses:bool, 14 sessionAffinityConfig:SessionAffinityConfig, 17 ipFamilyPolicy?, 18 clusterIPs[], 19 ipFamilies[], 20 allocateLoadBalancerNodePorts:bool?, 21 loadBalancerClass?, 22 internalTrafficPolicy?, 23 trafficDistribution?
ServicePort: 1 name, 2 protocol, 3 port:int, 4 targetPort:IntOrString, 5 nodePort:int, 6 appProtocol?
ServiceStatus: 1 loadBalancer:LoadBalancerStatus, 2 conditions[]:Condition
LoadBalancerStatus: 1 ingress[]:LoadBalancerIngress
LoadBalancerIngress: 1 ip, 2 hostname, 3 ipMode?
SessionAffinityConfig: 1 clientIP:ClientIPConfig
ClientIPConfig: 1 timeoutSeconds:int?
"""  # noqa: E501

_POD = """
Pod: 1 metadata:ObjectMeta, 2 spec:PodSpec, 3 status:PodStatus
PodTemplateSpec: 1 metadata:ObjectMeta, 2 spec:PodSpec
PodSpec: 1 volumes[]:Volume, 2 containers[]:Container, 3 restartPolicy, 4 terminationGracePeriodSeconds:int?, 5 activeDeadlineSeconds:int?, 6 dnsPolicy, 7 nodeSelector{}, 8 serviceAccountName, 9 serviceAccount, 10 nodeName, 11 hostNetwork:bool, 12 hostPID:bool, 13 hostIPC:bool, 14 securityContext:PodSecurityContext, 15 imagePullSecrets[]:LocalObjectReference, 16 hostname, 17 subdomain, 18 affinity:Affinity, 19 schedulerName, 20 initContainers[]:Container, 21 automountServiceAccountToken:bool?, 22 tolerations[]:Toleration, 23 hostAliases[]:HostAlias, 24 priorityClassName, 25 priority:int?, 26 dnsConfig:PodDNSConfig, 27 shareProcessNamespace:bool?, 28 readinessGates[]:PodReadinessGate, 29 runtimeClassName?, 30 enableServiceLinks:bool?, 31 preemptionPolicy?, 32 overhead{}:Quantity, 33 topologySpreadConstraints[]:TopologySpreadConstraint, 35 setHostnameAsFQDN:bool?, 36 os:PodOS, 37 hostUsers:bool?, 38 schedulingGates[]:PodSchedulingGate
PodOS: 1 name
PodSchedulingGate: 1 name
PodReadinessGate: 1 conditionType
PodDNSConfig: 1 nameservers[], 2 searches[], 3 options[]:PodDNSConfigOption
PodDNSConfigOption: 1 name, 2 value?
HostAlias: 1 ip, 2 hostnames[]
Toleration: 1 key, 2 operator, 3 value, 4 effect, 5 tolerationSeconds:int?
TopologySpreadConstraint: 1 maxSkew:int, 2 topologyKey, 3 whenUnsatisfiable, 4 labelSelector:LabelSelector, 5 minDomains:int?, 6 nodeAffinityPolicy?, 7 nodeTaintsPolicy?, 8 matchLabelKeys[]
Affinity: 1 nodeAffinity:NodeAffinity, 2 podAffinity:PodAffinity, 3 podAntiAffinity:PodAffinity
NodeAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution:NodeSelector, 2 preferredDuringSchedulingIgnoredDuringExecution[]:PreferredSchedulingTerm
NodeSelector: 1 nodeSelectorTerms[]:NodeSelectorTerm
NodeSelectorTerm: 1 matchExpressions[]:NodeSelectorRequirement, 2 matchFields[]:NodeSelectorRequirement
NodeSelectorRequirement: 1 key, 2 operator, 3 values[]
PreferredSchedulingTerm: 1 weight:int, 2 preference:NodeSelectorTerm
PodAffinity: 1 requiredDuringSchedulingIgnoredDuringExecution[]:PodAffinityTerm, 2 preferredDuringSchedulingIgnoredDuringExecution[]:WeightedPodAffinityTerm
PodAffinityTerm: 1 labelSelector:LabelSelector, 2 namespaces[], 3 topologyKey, 4 namespaceSelector:LabelSelector, 5 matchLabelKeys[], 6 mismatchLabelKeys[]
WeightedPodAffinityTerm: 1 weight:int, 2 podAffinityTerm:PodAffinityTerm
PodSecurityContext: 1 seLinuxOptions:SELinuxOptions, 2 runAsUser:int?, 3 runAsNonRoot:bool?, 4 supplementalGroups[]:int, 5 fsGroup:int?, 6 runAsGroup:int?, 7 sysctls[]:Sysctl, 9 fsGroupChangePolicy?, 10 seccompProfile:SeccompProfile
SELinuxOptions: 1 user, 2 role, 3 type, 4 level
SeccompProfile: 1 type, 2 localhostProfile?
Sysctl: 1 name, 2 value
SecurityContext: 1 capabilities:Capabilities, 2 privileged:bool?, 3 seLinuxOptions:SELinuxOptions, 4 runAsUser:int?, 5 runAsNonRoot:bool?, 6 readOnlyRootFilesystem:bool?, 7 allowPrivilegeEscalation:bool?, 8 runAsGroup:int?, 9 procMount?, 11 seccompProfile:SeccompProfile
Capabilities: 1 add[], 2 drop[]
PodStatus: 1 phase, 2 conditions[]:PodCondition, 3 message, 4 reason, 5 hostIP, 6 podIP, 7 startTime:Time, 8 containerStatuses[]:ContainerStatus, 9 qosClass, 10 initContainerStatuses[]:ContainerStatus, 11 nominatedNodeName, 12 podIPs[]:PodIP, 16 hostIPs[]:PodIP
PodIP: 1 ip
PodCondition: 1 type, 2 status, 3 lastProbeTime:Time, 4 lastTransitionTime:Time, 5 reason, 6 message, 7 observedGeneration:int
ContainerStatus: 1 name, 2 state:ContainerState, 3 lastState:ContainerState, 4 ready:bool?, 5 restartCount:int?, 6 image?, 7 imageID?, 8 containerID, 9 started:bool?
ContainerState: 1 waiting:ContainerStateWaiting, 2 running:ContainerStateRunning, 3 terminated:ContainerStateTerminated
ContainerStateRunning: 1 startedAt:Time
ContainerStateTerminated: 1 exitCode:int?, 2 signal:int, 3 reason, 4 message, 5 startedAt:Time, 6 finishedAt:Time, 7 containerID
ContainerStateWaiting: 1 reason, 2 message
"""  # noqa: E501

_CONTAINER = """
Container: 1 name, 2 image, 3 command[], 4 args[], 5 workingDir, 6 ports[]:ContainerPort, 7 env[]:EnvVar, 8 resources:ResourceRequirements, 9 volumeMounts[]:VolumeMount, 10 livenessProbe:Probe, 11 readinessProbe:Probe, 12 lifecycle:Lifecycle, 13 terminationMessagePath, 14 imagePullPolicy, 15 securityContext:SecurityContext, 16 stdin:bool, 17 stdinOnce:bool, 18 tty:bool, 19 envFrom[]:EnvFromSource, 20 terminationMessagePolicy, 21 volumeDevices[]:VolumeDevice, 22 startupProbe:Probe, 24 restartPolicy?
ContainerPort: 1 name, 2 hostPort:int, 3 containerPort:int, 4 protocol, 5 hostIP
EnvVar: 1 name, 2 value, 3 valueFrom:EnvVarSource
EnvVarSource: 1 fieldRef:ObjectFieldSelector, 2 resourceFieldRef:ResourceFieldSelector, 3 configMapKeyRef:KeySelector, 4 secretKeyRef:KeySelector
EnvFromSource: 1 prefix, 2 configMapRef:EnvSource, 3 secretRef:EnvSource
EnvSource: 1 &LocalObjectReference, 2 optional:bool?
KeySelector: 1 &LocalObjectReference, 2 key, 3 optional:bool?
ObjectFieldSelector: 1 apiVersion, 2 fieldPath
ResourceFieldSelector: 1 containerName, 2 resource, 3 divisor:Quantity
ResourceRequirements: 1 limits{}:Quantity, 2 requests{}:Quantity, 3 claims[]:ResourceClaim
ResourceClaim: 1 name, 2 request
VolumeMount: 1 name, 2 readOnly:bool, 3 mountPath, 4 subPath, 5 mountPropagation?, 6 subPathExpr, 7 recursiveReadOnly?
VolumeDevice: 1 name, 2 devicePath
Probe: 1 &Handler, 2 initialDelaySeconds:int, 3 timeoutSeconds:int, 4 periodSeconds:int, 5 successThreshold:int, 6 failureThreshold:int, 7 terminationGracePeriodSeconds:int?
Lifecycle: 1 postStart:LifecycleHandler, 2 preStop:LifecycleHandler
Handler: 1 exec:ExecAction, 2 httpGet:HTTPGetAction, 3 tcpSocket:TCPSocketAction, 4 grpc:GRPCAction
LifecycleHandler: 1 exec:ExecAction, 2 httpGet:HTTPGetAction, 3 tcpSocket:TCPSocketAction, 4 sleep:SleepAction
ExecAction: 1 command[]
HTTPGetAction: 1 path, 2 port:IntOrString?, 3 host, 4 scheme, 5 httpHeaders[]:HTTPHeader
HTTPHeader: 1 name, 2 value
TCPSocketAction: 1 port:IntOrString?, 2 host
GRPCAction: 1 port:int, 2 service?
SleepAction: 1 seconds:int?
Volume: 1 name, 2 &VolumeSource
VolumeSource: 1 hostPath:HostPathVolumeSource, 2 emptyDir:EmptyDirVolumeSource, 6 secret:SecretVolumeSource, 7 nfs:NFSVolumeSource, 10 persistentVolumeClaim:PersistentVolumeClaimVolumeSource, 16 downwardAPI:DownwardAPIVolumeSource, 19 configMap:ConfigMapVolumeSource, 26 projected:ProjectedVolumeSource, 28 csi:CSIVolumeSource
HostPathVolumeSource: 1 path, 2 type?
EmptyDirVolumeSource: 1 medium, 2 sizeLimit:Quantity
SecretVolumeSource: 1 secretName, 2 items[]:KeyToPath, 3 defaultMode:int?, 4 optional:bool?
ConfigMapVolumeSource: 1 &LocalObjectReference, 2 items[]:KeyToPath, 3 defaultMode:int?, 4 optional:bool?
KeyToPath: 1 key, 2 path, 3 mode:int?
NFSVolumeSource: 1 server, 2 path, 3 readOnly:bool
PersistentVolumeClaimVolumeSource: 1 claimName, 2 readOnly:bool
DownwardAPIVolumeSource: 1 items[]:DownwardAPIVolumeFile, 2 defaultMode:int?
DownwardAPIVolumeFile: 1 path, 2 fieldRef:ObjectFieldSelector, 3 resourceFieldRef:ResourceFieldSelector, 4 mode:int?
CSIVolumeSource: 1 driver, 2 readOnly:bool?, 3 fsType?, 4 volumeAttributes{}, 5 nodePublishSecretRef:LocalObjectReference
ProjectedVolumeSource: 1 sources[]:VolumeProjection, 2 defaultMode:int?
VolumeProjection: 1 secret:KeyProjection, 2 downwardAPI:DownwardAPIProjection, 3 configMap:KeyProjection, 4 serviceAccountToken:ServiceAccountTokenProjection
KeyProjection: 1 &LocalObjectReference, 2 items[]:KeyToPath, 4 optional:bool?
DownwardAPIProjection: 1 items[]:DownwardAPIVolumeFile
ServiceAccountTokenProjection: 1 audience, 2 expirationSeconds:int?, 3 path
"""  # noqa: E501

_APPS = """
Deployment: 1 metadata:ObjectMeta, 2 spec:DeploymentSpec, 3 status:DeploymentStatus
DeploymentSpec: 1 replicas:int?, 2 selector:LabelSelector, 3 template:PodTemplateSpec, 4 strategy:DeploymentStrategy, 5 minReadySeconds:int, 6 revisionHistoryLimit:int?, 7 paused:bool, 9 progressDeadlineSeconds:int?
DeploymentStrategy: 1 type, 2 rollingUpdate:RollingUpdateDeployment
RollingUpdateDeployment: 1 maxUnavailable:IntOrString?, 2 maxSurge:IntOrString?
DeploymentStatus: 1 observedGeneration:int, 2 replicas:int, 3 updatedReplicas:int, 4 availableReplicas:int, 5 unavailableReplicas:int, 6 conditions[]:DeploymentCondition, 7 readyReplicas:int, 8 collisionCount:int?
DeploymentCondition: 1 type, 2 status, 4 reason, 5 message, 6 lastUpdateTime:Time, 7 lastTransitionTime:Time
ReplicaSet: 1 metadata:ObjectMeta, 2 spec:ReplicaSetSpec, 3 status:ReplicaSetStatus
ReplicaSetSpec: 1 replicas:int?, 2 selector:LabelSelector, 3 template:PodTemplateSpec, 4 minReadySeconds:int
ReplicaSetStatus: 1 replicas:int?, 2 fullyLabeledReplicas:int, 3 observedGeneration:int, 4 readyReplicas:int, 5 availableReplicas:int, 6 conditions[]:ReplicaSetCondition
ReplicaSetCondition: 1 type, 2 status, 3 lastTransitionTime:Time, 4 reason, 5 message
Lease: 1 metadata:ObjectMeta, 2 spec:LeaseSpec
LeaseSpec: 1 holderIdentity?, 2 leaseDurationSeconds:int?, 3 acquireTime:MicroTime, 4 renewTime:MicroTime, 5 leaseTransitions:int?, 6 strategy?, 7 preferredHolder?
"""  # noqa: E501

_AUTOSCALING = """
Scale: 1 metadata:ObjectMeta, 2 spec:ScaleSpec, 3 status:ScaleStatus
ScaleSpec: 1 replicas:int
ScaleStatus: 1 replicas:int?, 2 selector
HorizontalPodAutoscalerV1: 1 metadata:ObjectMeta, 2 spec:HorizontalPodAutoscalerV1Spec, 3 status:HorizontalPodAutoscalerV1Status
HorizontalPodAutoscalerV1Spec: 1 scaleTargetRef:CrossVersionObjectReference, 2 minReplicas:int?, 3 maxReplicas:int?, 4 targetCPUUtilizationPercentage:int?
HorizontalPodAutoscalerV1Status: 1 observedGeneration:int?, 2 lastScaleTime:Time, 3 currentReplicas:int?, 4 desiredReplicas:int?, 5 currentCPUUtilizationPercentage:int?
CrossVersionObjectReference: 1 kind, 2 name, 3 apiVersion
HorizontalPodAutoscaler: 1 metadata:ObjectMeta, 2 spec:HorizontalPodAutoscalerSpec, 3 status:HorizontalPodAutoscalerStatus
HorizontalPodAutoscalerSpec: 1 scaleTargetRef:CrossVersionObjectReference, 2 minReplicas:int?, 3 maxReplicas:int?, 4 metrics[]:MetricSpec, 5 behavior:HorizontalPodAutoscalerBehavior
HorizontalPodAutoscalerStatus: 1 observedGeneration:int?, 2 lastScaleTime:Time, 3 currentReplicas:int, 4 desiredReplicas:int?, 6 conditions[]:HorizontalPodAutoscalerCondition
HorizontalPodAutoscalerCondition: 1 type, 2 status, 3 lastTransitionTime:Time, 4 reason, 5 message, 6 observedGeneration:int
HorizontalPodAutoscalerBehavior: 1 scaleUp:HPAScalingRules, 2 scaleDown:HPAScalingRules
HPAScalingRules: 1 selectPolicy?, 2 policies[]:HPAScalingPolicy, 3 stabilizationWindowSeconds:int?, 4 tolerance:Quantity
HPAScalingPolicy: 1 type, 2 value:int?, 3 periodSeconds:int?
MetricSpec: 1 type, 2 object:ObjectMetricSource, 3 pods:MetricSource, 4 resource:ResourceMetricSource, 5 external:MetricSource, 7 containerResource:ContainerResourceMetricSource
ObjectMetricSource: 1 describedObject:CrossVersionObjectReference, 2 target:MetricTarget, 3 metric:MetricIdentifier
MetricSource: 1 metric:MetricIdentifier, 2 target:MetricTarget
ResourceMetricSource: 1 name, 2 target:MetricTarget
ContainerResourceMetricSource: 1 name, 2 target:MetricTarget, 3 container
MetricIdentifier: 1 name, 2 selector:LabelSelector
MetricTarget: 1 type, 2 value:Quantity, 3 averageValue:Quantity, 4 averageUtilization:int?
"""  # noqa: E501

_REVIEWS = """
SelfSubjectReview: 1 metadata:ObjectMeta, 2 status:SelfSubjectReviewStatus
SelfSubjectReviewStatus: 1 userInfo:UserInfo
UserInfo: 1 username, 2 uid, 3 groups[]
TokenRequest: 1 metadata:ObjectMeta, 2 spec:TokenRequestSpec, 3 status:TokenRequestStatus
TokenRequestSpec: 1 audiences[], 3 boundObjectRef:BoundObjectReference, 4 expirationSeconds:int?
TokenRequestStatus: 1 token, 2 expirationTimestamp:Time
BoundObjectReference: 1 kind, 2 apiVersion, 3 name, 4 uid
TokenReview: 1 metadata:ObjectMeta, 2 spec:TokenReviewSpec, 3 status:TokenReviewStatus
TokenReviewSpec: 1 token, 2 audiences[]
TokenReviewStatus: 1 authenticated:bool, 2 user:UserInfo, 3 error, 4 audiences[]
SelfSubjectAccessReview: 1 metadata:ObjectMeta, 2 spec:SelfSubjectAccessReviewSpec, 3 status:SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec: 1 resourceAttributes:ResourceAttributes, 2 nonResourceAttributes:NonResourceAttributes
ResourceAttributes: 1 namespace, 2 verb, 3 group, 4 version, 5 resource, 6 subresource, 7 name
NonResourceAttributes: 1 path, 2 verb
SubjectAccessReviewStatus: 1 allowed:bool, 2 reason, 3 evaluationError, 4 denied:bool
SelfSubjectRulesReview: 1 metadata:ObjectMeta, 2 spec:SelfSubjectRulesReviewSpec, 3 status:SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec: 1 namespace
SubjectRulesReviewStatus: 3 incomplete:bool, 4 evaluationError
"""  # noqa: E501

MESSAGES = _parse(_META + _CORE + _POD + _CONTAINER + _APPS + _AUTOSCALING + _REVIEWS)
"""Fields by number, for each message by name."""
