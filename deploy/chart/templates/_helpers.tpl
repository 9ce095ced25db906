{{- define "dlh.name" -}}
{{- printf "%s-dlh" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "dlh.labels" -}}
app.kubernetes.io/name: dlh
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Call with (dict "root" $ "part" "portal"). */}}
{{- define "dlh.selector" -}}
app.kubernetes.io/name: dlh
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
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

{{/* Settings of the operator guide that the chart has no value for. Call with a list of maps: the last that has a name
counts, also with 0 or an empty text, which `merge` takes for nothing. */}}
{{- define "dlh.settings" -}}
{{- $given := dict }}
{{- range . }}{{ range $name, $value := . }}{{ $_ := set $given $name $value }}{{ end }}{{ end }}
{{- range $name, $value := $given }}
- {name: {{ $name }}, value: {{ kindIs "string" $value | ternary $value (int64 $value | toString) | quote }}}
{{- end }}
{{- end -}}

{{/* Secrets arrive as files, which no process list and no `kubectl describe` shows. */}}
{{- define "dlh.redisEnvironment" -}}
- {name: DLH_REDIS_URL, value: {{ .Values.redis.url | quote }}}
- {name: DLH_REDIS_PASSWORD_FILE, value: /run/secrets/dlh/redis_password}
{{- end -}}

{{- define "dlh.webEnvironment" -}}
{{ include "dlh.redisEnvironment" . }}
- {name: DLH_DATABASE_URL, value: {{ .Values.database.url | quote }}}
- {name: DLH_DATABASE_PASSWORD_FILE, value: /run/secrets/dlh/database_password}
- {name: DLH_SECRET_KEY_FILE, value: /run/secrets/dlh/secret_key}
- {name: DLH_PUBLIC_URL, value: {{ .Values.publicUrl | quote }}}
- {name: DLH_BEHIND_PROXY, value: "1"}
- {name: DLH_SECOND_FACTOR, value: {{ .Values.portal.secondFactor | default "nobody" }}}
# Nodes with a cache ask the portal by its service.
- {name: DLH_ALLOWED_HOSTS, value: {{ include "dlh.name" . }}-portal}
{{- include "dlh.settings" (list .Values.settings) }}
{{- end -}}

{{/* Portal and control: they alone sign in at object store and mail server. */}}
{{- define "dlh.servingEnvironment" -}}
{{ include "dlh.webEnvironment" . }}
- {name: DLH_EVENT_STREAMS, value: {{ .Values.control.eventStreams | quote }}}
{{- with .Values.smtp }}
{{- if .host }}
- {name: DLH_SMTP_HOST, value: {{ .host | quote }}}
- {name: DLH_SMTP_FROM, value: {{ .from | quote }}}
- {name: DLH_SMTP_SECURITY, value: {{ .security | quote }}}
- {name: DLH_SMTP_PORT, value: {{ .port | toString | quote }}}
{{- if .user }}
- {name: DLH_SMTP_USER, value: {{ .user | quote }}}
- {name: DLH_SMTP_PASSWORD_FILE, value: /run/secrets/dlh/smtp_password}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.signIn }}
{{- if .issuer }}
- {name: DLH_OIDC_ISSUER, value: {{ .issuer | quote }}}
- {name: DLH_OIDC_CLIENT_ID, value: {{ .clientId | quote }}}
{{- if $.Values.secrets.oidcClientSecret }}
- {name: DLH_OIDC_CLIENT_SECRET_FILE, value: /run/secrets/dlh/oidc_client_secret}
{{- end }}
- {name: DLH_OIDC_SCOPES, value: {{ .scopes | quote }}}
- {name: DLH_OIDC_NAME_CLAIM, value: {{ .nameClaim | quote }}}
- {name: DLH_OIDC_GROUPS_CLAIM, value: {{ .groupsClaim | quote }}}
- {name: DLH_OIDC_ALLOWED_DOMAINS, value: {{ .allowedDomains | join "," | quote }}}
- {name: DLH_OIDC_ALLOWED_GROUPS, value: {{ .allowedGroups | join "," | quote }}}
- {name: DLH_OIDC_ADMIN_GROUP, value: {{ .adminGroup | quote }}}
- {name: DLH_OIDC_NEW_ACCOUNTS, value: {{ ternary "1" "0" .newAccounts | quote }}}
- {name: DLH_OIDC_LABEL, value: {{ .label | quote }}}
- {name: DLH_OIDC_EMERGENCY_ADMIN, value: {{ .emergencyAdmin | quote }}}
{{- end }}
{{- end }}
- {name: DLH_FETCHES_AT_ONCE, value: {{ .Values.fetches.atOnce | toString | quote }}}
- {name: DLH_FETCH_NETWORKS, value: {{ .Values.fetches.networks | join "," | quote }}}
- {name: DLH_WEBHOOK_NETWORKS, value: {{ .Values.webhooks.networks | join "," | quote }}}
- {name: DLH_WEBHOOK_HTTP, value: {{ ternary "1" "0" .Values.webhooks.http | quote }}}
{{- with .Values.objectStore }}
{{- if .url }}
- {name: DLH_S3_URL, value: {{ .url | quote }}}
- {name: DLH_S3_ENDPOINT, value: {{ .endpoint | quote }}}
- {name: DLH_S3_REGION, value: {{ .region | quote }}}
- {name: DLH_S3_KEY_FILE, value: /run/secrets/dlh/s3_key}
- {name: DLH_S3_SECRET_FILE, value: /run/secrets/dlh/s3_secret}
{{- if .caConfigMap }}
- {name: DLH_S3_CA_FILE, value: /run/objects-ca/ca.crt}
{{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A node with `store: cache`: its own login at Redis and portal; the shared password only where Redis has no own users. */}}
{{- define "dlh.farEnvironment" -}}
- {name: DLH_REDIS_URL, value: {{ .Values.redis.url | quote }}}
{{- if not .Values.redis.ownUsers }}
- {name: DLH_REDIS_PASSWORD_FILE, value: /run/secrets/dlh/redis_password}
{{- end }}
- {name: DLH_URL, value: http://{{ include "dlh.name" . }}-portal}
- {name: DLH_NODE_SECRET_FILE, value: /run/secrets/dlh-node}
- {name: DLH_CACHE, value: /cache}
{{- if .Values.objectStore.caConfigMap }}
# Python's own name; the folder of usual authorities counts beside it.
- {name: SSL_CERT_FILE, value: /run/objects-ca/ca.crt}
{{- end }}
{{- end -}}

{{/* Those who speak to the object store: portal, control, nodes with a cache. */}}
{{- define "dlh.caMounts" -}}
{{- if .Values.objectStore.caConfigMap }}
- {name: objects-ca, mountPath: /run/objects-ca, readOnly: true}
{{- end }}
{{- end -}}

{{- define "dlh.caVolumes" -}}
{{- with .Values.objectStore.caConfigMap }}
- name: objects-ca
  configMap: {name: {{ . | quote }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- end -}}

{{- define "dlh.mounts" -}}
- {name: secrets, mountPath: /run/secrets/dlh, readOnly: true}
- {name: store, mountPath: /store}
{{ include "dlh.ownMounts" . }}
{{- end -}}

{{- define "dlh.servingMounts" -}}
{{ include "dlh.mounts" . }}
{{- include "dlh.caMounts" . }}
{{- end -}}

{{- define "dlh.farMounts" -}}
# Of all nodes' secrets the pod sees the one with its name.
- {name: node-secrets, mountPath: /run/secrets/dlh-node, subPathExpr: $(DLH_NODE_NAME), readOnly: true}
{{- if not .Values.redis.ownUsers }}
- {name: secrets, mountPath: /run/secrets/dlh, readOnly: true}
{{- end }}
- {name: cache, mountPath: /cache}
{{ include "dlh.ownMounts" . }}
{{- include "dlh.caMounts" . }}
{{- end -}}

{{- define "dlh.ownMounts" -}}
- {name: home, mountPath: /var/lib/dlh}
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{/* Call with (dict "root" $ "secrets" KEYS "store" true). KEYS are fields of .Values.secrets; a node gets redisPassword alone. */}}
{{- define "dlh.volumes" -}}
- name: home
  emptyDir: {}
- name: tmp
  emptyDir: {}
{{- if .store }}
- name: store
  persistentVolumeClaim: {claimName: {{ include "dlh.claim" .root | quote }}}
{{- end }}
{{- if .secrets }}
- name: secrets
  secret:
    secretName: {{ .root.Values.secrets.existingSecret | quote }}
    defaultMode: 0440
    items:
      {{- range .secrets }}
      - {key: {{ get $.root.Values.secrets . | quote }}, path: {{ snakecase . }}}
      {{- end }}
{{- end }}
{{- end -}}

{{- define "dlh.webVolumes" -}}
{{ include "dlh.volumes" (dict "root" . "secrets" (list "redisPassword" "databasePassword" "secretKey") "store" true) }}
{{- end -}}

{{- define "dlh.servingVolumes" -}}
{{- $keys := list "redisPassword" "databasePassword" "secretKey" }}
{{- if .Values.objectStore.url }}
{{- $keys = concat $keys (list "s3Key" "s3Secret") }}
{{- end }}
{{- if .Values.smtp.user }}
{{- $keys = append $keys "smtpPassword" }}
{{- end }}
{{- if and .Values.signIn.issuer .Values.secrets.oidcClientSecret }}
{{- $keys = append $keys "oidcClientSecret" }}
{{- end }}
{{- include "dlh.volumes" (dict "root" . "secrets" $keys "store" true) }}
{{- include "dlh.caVolumes" . }}
{{- end -}}

{{/* The secrets of nodes with a cache, for those nodes and for `prepare`. */}}
{{- define "dlh.nodeSecrets" -}}
- name: node-secrets
  secret:
    secretName: {{ required "secrets.nodeSecrets must name the Secret with a key for each node with store: cache" .Values.secrets.nodeSecrets | quote }}
    defaultMode: 0440
{{- end -}}

{{- define "dlh.cacheSize" -}}
{{ .size | default (printf "%dGi" (mul 2 .gib)) }}
{{- end -}}

{{- define "dlh.pull" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "dlh.backupClaim" -}}
{{ .Values.backup.existingClaim | default (printf "%s-backups" (include "dlh.name" .)) }}
{{- end -}}

{{/* Replicas of portal and control: none while a backup is brought back. Call with (dict "root" $ "replicas" N). */}}
{{- define "dlh.replicas" -}}
{{ ternary .replicas 0 (empty .root.Values.backup.restore) }}
{{- end -}}

{{/* A pod that works on store, database and backups. Call with (dict "root" $ "part" "backup" "args" LIST "readOnly" false). */}}
{{- define "dlh.backupPod" -}}
metadata:
  labels:
    {{- include "dlh.selector" . | nindent 4 }}
spec:
  restartPolicy: Never
  serviceAccountName: {{ include "dlh.name" .root }}
  automountServiceAccountToken: false
  {{- include "dlh.pull" .root | nindent 2 }}
  securityContext:
    {{- include "dlh.podSecurity" .root | nindent 4 }}
  containers:
    - name: {{ .part }}
      image: {{ include "dlh.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: {{ toJson .args }}
      env:
        {{- include "dlh.webEnvironment" .root | nindent 8 }}
      volumeMounts:
        {{- include "dlh.mounts" .root | nindent 8 }}
        - {name: backups, mountPath: /backups, readOnly: {{ .readOnly }}}
      securityContext:
        {{- include "dlh.containerSecurity" .root | nindent 8 }}
      resources:
        requests: {cpu: 250m, memory: 512Mi}
        limits: {memory: 2Gi}
  volumes:
    {{- include "dlh.webVolumes" .root | nindent 4 }}
    - name: backups
      persistentVolumeClaim: {claimName: {{ include "dlh.backupClaim" .root | quote }}}
{{- end -}}
