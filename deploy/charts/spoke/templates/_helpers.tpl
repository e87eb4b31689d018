{{- /* Names are fixed: a cluster has one agent, whose identity is in a Secret of a fixed name. */ -}}
{{- define "spoke.name" -}}
dynamic-config-spoke
{{- end -}}

{{- define "spoke.selector" -}}
app.kubernetes.io/name: dynamic-config-spoke
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "spoke.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "spoke.selector" . }}
app.kubernetes.io/component: spoke
app.kubernetes.io/part-of: dynamic-config
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "spoke.metadata" -}}
name: {{ include "spoke.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "spoke.labels" . | nindent 2 }}
{{- end -}}

{{- define "spoke.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* What the agent may do where its Renders are: in every namespace, or in each of some. */ -}}
{{- define "spoke.rules" -}}
# What the tenants write. The agent never changes a spec.
- apiGroups: [dynamic-config.rs]
  resources: [dynamicconfigrenders]
  verbs: [get, list, watch]
- apiGroups: [dynamic-config.rs]
  resources: [dynamicconfigrenders/status]
  verbs: [update]
# The targets, of any name in any namespace with a Render. They are written by
# server-side apply (create and patch) and watched as metadata alone; there is
# no update.
- apiGroups: [""]
  resources: [configmaps, secrets]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{- /* Nine tenths of the limit of memory, where nothing else is said. */ -}}
{{- define "spoke.goMemLimit" -}}
{{- $limit := dig "limits" "memory" "" (.Values.resources | default dict) | toString -}}
{{- if .Values.goMemLimit -}}
{{ .Values.goMemLimit }}
{{- else if regexMatch "^[0-9]+Gi$" $limit -}}
{{ div (mul (trimSuffix "Gi" $limit | int64) 1024 9) 10 }}MiB
{{- else if regexMatch "^[0-9]+Mi$" $limit -}}
{{ div (mul (trimSuffix "Mi" $limit | int64) 9) 10 }}MiB
{{- end -}}
{{- end -}}
