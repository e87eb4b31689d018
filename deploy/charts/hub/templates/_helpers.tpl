{{- /* Names are fixed: the classes and SpokeClusters of a cluster have one hub. */ -}}
{{- define "hub.name" -}}
dynamic-config-hub
{{- end -}}

{{- define "hub.selector" -}}
app.kubernetes.io/name: dynamic-config-hub
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hub.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "hub.selector" . }}
app.kubernetes.io/component: hub
app.kubernetes.io/part-of: dynamic-config
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hub.metadata" -}}
name: {{ include "hub.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "hub.labels" . | nindent 2 }}
{{- end -}}

{{- define "hub.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Names in the hub's certificate: those of its Service, and the user's. */ -}}
{{- define "hub.serverNames" -}}
{{- $name := include "hub.name" . -}}
{{- $service := printf "%s.%s.svc" $name .Release.Namespace -}}
{{- $names := list $service (printf "%s.cluster.local" $service) -}}
{{- if .Values.web.enabled -}}
{{- $names = append $names (printf "%s-web.%s.svc" $name .Release.Namespace) -}}
{{- end -}}
{{- join "," (concat $names .Values.serverNames | uniq) -}}
{{- end -}}

{{- /* Nine tenths of the limit of memory, where nothing else is said. */ -}}
{{- define "hub.goMemLimit" -}}
{{- $limit := dig "limits" "memory" "" (.Values.resources | default dict) | toString -}}
{{- if .Values.goMemLimit -}}
{{ .Values.goMemLimit }}
{{- else if regexMatch "^[0-9]+Gi$" $limit -}}
{{ div (mul (trimSuffix "Gi" $limit | int64) 1024 9) 10 }}MiB
{{- else if regexMatch "^[0-9]+Mi$" $limit -}}
{{ div (mul (trimSuffix "Mi" $limit | int64) 9) 10 }}MiB
{{- end -}}
{{- end -}}
