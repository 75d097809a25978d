{{/* How many replicas must stay available. As many as there are would block the drain of every node with a replica. */}}
{{- define "mcu.minAvailable" -}}
{{- $replicas := int .Values.replicaCount }}
{{- $min := .Values.podDisruptionBudget.minAvailable }}
{{- $needed := int (trimSuffix "%" (toString $min)) }}
{{- if kindIs "string" $min }}
{{- /* A share is rounded up. */}}
{{- $needed = div (add (mul $needed $replicas) 99) 100 }}
{{- end }}
{{- if ge (int $needed) $replicas }}
{{- fail (printf "podDisruptionBudget.minAvailable is %v of %d replicas, so no node with a replica could be drained: set it lower than replicaCount" $min $replicas) }}
{{- end }}
{{- $min }}
{{- end }}

{{/* A further flag of the controller. One that the chart sets, too, would end the controller, as it takes each only once. */}}
{{- define "mcu.extraArg" -}}
{{- $remedies := dict
      "--leader-elect" "the chart always sets it"
      "--listen" "the chart always sets it, as the probes need it"
      "--spoke-rbac" "set the value spokeRBAC instead"
      "--approver-image" "set the value approverImage instead" }}
{{- $flag := first (splitList "=" .) }}
{{- with get $remedies $flag }}
{{- fail (printf "extraArgs must not contain %s: %s" $flag .) }}
{{- end }}
{{- . }}
{{- end }}
