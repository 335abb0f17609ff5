{{- /* A role and its binding: (dict "root" $ "component" NAME "name" NAME "namespace" NAMESPACE "rules" TEXT).
     Without a namespace, it is a ClusterRole. */ -}}
{{- define "headgate.role" -}}
{{- $cluster := ternary "" "Cluster" (ne .namespace "") -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster }}Role
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "headgate.labels" . | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $cluster }}RoleBinding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "headgate.labels" . | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ $cluster }}Role, name: {{ .name }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "headgate.serviceAccount" . }}, namespace: {{ .root.Release.Namespace }}}
{{- end -}}

{{- /* The same in each namespace that is followed: (dict "root" $ "component" NAME "name" NAME "rules" TEXT). */ -}}
{{- define "headgate.roles" -}}
{{- range $index, $namespace := default (list "") (include "headgate.namespaces" .root | fromJsonArray) }}
{{- if $index }}
---
{{ end }}
{{- include "headgate.role" (merge (dict "namespace" $namespace) $) }}
{{- end }}
{{- end -}}

{{- /* The right to read the followed namespaces by name: it tells a deleted namespace, whose Role is deleted as well,
     from a revoked right. (dict "root" $ "component" NAME "name" NAME). */ -}}
{{- define "headgate.roleOfNamespaces" -}}
{{- $namespaces := include "headgate.namespaces" .root | fromJsonArray -}}
{{- if and $namespaces .root.Values.rbac.readNamespaces }}
---
{{ include "headgate.role" (merge (dict "name" (printf "%s-namespaces-%s" .name .root.Release.Namespace) "namespace" "" "rules" (include "headgate.rulesOfNamespaces" $namespaces)) .) }}
{{- end }}
{{- end -}}

{{- define "headgate.rulesOfNamespaces" -}}
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: {{ toJson . }}
  verbs: [get]
{{- end -}}
