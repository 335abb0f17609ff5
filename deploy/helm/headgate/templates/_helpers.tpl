{{- define "headgate.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Helpers of a component take (dict "root" $ "component" NAME). */ -}}
{{- define "headgate.component" -}}
{{- printf "%s-%s" (include "headgate.fullname" .root) .component -}}
{{- end -}}

{{- define "headgate.selector" -}}
app.kubernetes.io/name: {{ default .root.Chart.Name .root.Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "headgate.labels" -}}
{{ include "headgate.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "headgate.serviceAccount" -}}
{{- $account := (index .root.Values .component).serviceAccount -}}
{{- if $account.create -}}
{{- default (include "headgate.component" .) $account.name -}}
{{- else -}}
{{- default "default" $account.name -}}
{{- end -}}
{{- end -}}

{{- define "headgate.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "headgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "headgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- /* Where Pods of a component run. */ -}}
{{- define "headgate.placement" -}}
{{- $values := index .root.Values .component -}}
{{- with $values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
topologySpreadConstraints:
{{- with $values.topologySpreadConstraints }}
  {{- toYaml . | nindent 2 }}
{{- else }}
{{- range tuple "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ . }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    # Only Pods of one revision count: otherwise those that a rollout replaces would distort the spread.
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels: {{- include "headgate.selector" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The namespaces that are followed, as a JSON list; empty for all. */ -}}
{{- define "headgate.namespaces" -}}
{{- $one := ternary (list) (list .Values.watchNamespace) (empty .Values.watchNamespace) -}}
{{- concat $one .Values.watchNamespaces | uniq | toJson -}}
{{- end -}}

{{- /* Where the ConfigMaps of VariantAutoscalings are. */ -}}
{{- define "headgate.planningNamespace" -}}
{{- $usual := ternary "workload-variant-autoscaler-system" .Release.Namespace (empty (include "headgate.namespaces" . | fromJsonArray)) -}}
{{- default $usual .Values.controller.planningNamespace -}}
{{- end -}}

{{- /* The file of --config, with the namespaces. */ -}}
{{- define "headgate.settings" -}}
{{- $settings := deepCopy .Values.gateway.settings -}}
{{- with include "headgate.namespaces" . | fromJsonArray -}}
{{- $settings = mustMergeOverwrite $settings (dict "kubernetes" (dict "namespaces" .)) -}}
{{- end -}}
{{- if not (include "headgate.gatewayClasses" .) -}}
{{- $settings = mustMerge $settings (dict "gateway_api" (dict "controller" "")) -}}
{{- end -}}
{{- if .Values.gateway.providers -}}
{{- $settings = mustMerge $settings (dict "providers" (dict "file" "/etc/headgate/providers.yaml")) -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end -}}

{{- /* Not empty if GatewayClasses and Namespaces may be read, which are in no namespace: the Gateway API needs them. */ -}}
{{- define "headgate.gatewayClasses" -}}
{{- if or (not (include "headgate.namespaces" . | fromJsonArray)) .Values.rbac.readGatewayClasses -}}true{{- end -}}
{{- end -}}

{{- /* The settings that a running gateway does not apply. */ -}}
{{- define "headgate.settingsOfStart" -}}
{{- $settings := include "headgate.settings" . | fromYaml -}}
{{- $limits := default dict $settings.rate_limits -}}
{{- $found := pick $settings "listen" "metrics" "admin" "kubernetes" "gateway_api" "peers" -}}
{{- $found = set $found "tls" (omit (default dict $settings.tls) "hsts_max_age_s") -}}
{{- $found = set $found "tracing" (pick (default dict $settings.tracing) "endpoint") -}}
{{- $found = set $found "workers" (pick (default dict $settings.workers) "count") -}}
{{- $found = set $found "auth" (pick (default dict $settings.auth) "namespace") -}}
{{- $found = set $found "rate_limits" (pick $limits "gateways" "redis_hosts" "redis_tls" "redis_ca_file") -}}
{{- toYaml $found -}}
{{- end -}}

{{- /* A port: (dict "root" $ "section" NAME "default" NUMBER). */ -}}
{{- define "headgate.port" -}}
{{- dig .section "port" .default .root.Values.gateway.settings | int -}}
{{- end -}}

{{- /* Seconds from the signal to stop until the gateway has cut off the last request, and 10 to exit. */ -}}
{{- define "headgate.gracePeriod" -}}
{{- $shutdown := dig "shutdown" dict .Values.gateway.settings -}}
{{- addf (dig "lameduck_s" 0 $shutdown) (dig "drain_s" 30 $shutdown) 10 | ceil | int -}}
{{- end -}}

{{- /* Kinds that the gateway routes by, and whose status the controller writes. */ -}}
{{- define "headgate.rulesOfObjects" -}}
- apiGroups: [networking.volcano.sh]
  resources: [modelroutes, modelservers]
  verbs: [list, watch]
- apiGroups: [inference.networking.k8s.io]
  resources: [inferencepools]
  verbs: [list, watch]
- apiGroups: [inference.networking.x-k8s.io]
  resources: [inferencepools, inferencemodels, inferenceobjectives, inferencemodelrewrites]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- with .Values.rbac.secretNames }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, watch]
  {{- if not (has "*" .) }}
  resourceNames: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
{{- end -}}
