{{- define "dlh.name" -}}
{{- printf "%s-dlh" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "dlh.labels" -}}
app.kubernetes.io/name: dlh
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Call with (dict "root" $ "part" "portal"). */}}
{{- define "dlh.selector" -}}
app.kubernetes.io/name: dlh
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "dlh.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}

{{- define "dlh.claim" -}}
{{ .Values.store.existingClaim | default (printf "%s-store" (include "dlh.name" .)) }}
{{- end -}}

{{- define "dlh.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "dlh.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Secrets arrive as files, which no process list and no `kubectl describe` shows. */}}
{{- define "dlh.nodeEnvironment" -}}
- {name: DLH_REDIS_URL, value: {{ .Values.redis.url | quote }}}
- {name: DLH_REDIS_PASSWORD_FILE, value: /run/secrets/dlh/redis_password}
{{- end -}}

{{- define "dlh.webEnvironment" -}}
{{ include "dlh.nodeEnvironment" . }}
- {name: DLH_DATABASE_URL, value: {{ .Values.database.url | quote }}}
- {name: DLH_DATABASE_PASSWORD_FILE, value: /run/secrets/dlh/database_password}
- {name: DLH_SECRET_KEY_FILE, value: /run/secrets/dlh/secret_key}
- {name: DLH_PUBLIC_URL, value: {{ .Values.publicUrl | quote }}}
- {name: DLH_BEHIND_PROXY, value: "1"}
{{- end -}}

{{- define "dlh.mounts" -}}
- {name: secrets, mountPath: /run/secrets/dlh, readOnly: true}
- {name: store, mountPath: /store}
- {name: home, mountPath: /var/lib/dlh}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{/* Call with (dict "root" $ "web" true): a node gets the broker's password and nothing else. */}}
{{- define "dlh.volumes" -}}
- name: secrets
  secret:
    secretName: {{ .root.Values.secrets.existingSecret }}
    defaultMode: 0440
    items:
      - {key: {{ .root.Values.secrets.redisPassword }}, path: redis_password}
      {{- if .web }}
      - {key: {{ .root.Values.secrets.databasePassword }}, path: database_password}
      - {key: {{ .root.Values.secrets.secretKey }}, path: secret_key}
      {{- end }}
- name: store
  persistentVolumeClaim: {claimName: {{ include "dlh.claim" .root }}}
- name: home
  emptyDir: {}
- name: tmp
  emptyDir: {}
{{- end -}}

{{- define "dlh.pull" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}
