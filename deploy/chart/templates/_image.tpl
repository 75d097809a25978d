{{/* The controller's image: by digest if there is one, otherwise by tag. */}}
{{- define "mcu.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/*
The version of MCU in that image, as far as the values tell it; empty if they do not. The chart knows only its own version, so what runs by
a digest alone may be any, for example the image of the release before after an update that reuses values. A tag beside a digest says which
version the digest is of. A tag that cannot be the value of a label names no version.
*/}}
{{- define "mcu.imageVersion" -}}
{{- with .Values.image }}
{{- if .tag }}
{{- if regexMatch "^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$" .tag }}{{ .tag }}{{ end }}
{{- else if not .digest }}
{{- $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}
