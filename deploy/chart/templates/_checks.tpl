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

{{/*
Refuses an update that would delete the CRDs. A release that had CRDs and is updated to crds.enabled=false loses them, unless the CRD on the
hub has the annotation that keeps it. Helm does not ask before that, and deletes all upgrades and their records with the CRDs.
*/}}
{{- define "mcu.checkCRDs" -}}
{{- if and .Release.IsUpgrade (not .Values.crds.enabled) }}
{{- range $name := include "mcu.crds" . | fromJsonArray }}
{{- $crd := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name }}
{{- $annotations := dig "metadata" "annotations" dict $crd | default dict }}
{{- $release := get $annotations "meta.helm.sh/release-name" }}
{{- $namespace := get $annotations "meta.helm.sh/release-namespace" }}
{{- $isOurs := and (eq $release $.Release.Name) (eq $namespace $.Release.Namespace) }}
{{- if and $isOurs (ne (get $annotations "helm.sh/resource-policy") "keep") }}
{{- fail (printf "crds.enabled=false would delete the CRD %s, and with it every object of it on this hub: all upgrades and their records would be lost. It belongs to this release, which was installed with crds.keep=false. Keep the CRDs first, with the chart of the version that is installed now, and then repeat this command: helm upgrade %s CHART --namespace %s --reset-then-reuse-values --set crds.enabled=true,crds.keep=true" $name $.Release.Name $.Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/*
A further flag of the controller. One that the chart sets, too, would end the controller, as it takes each only once. With another Lease
than that of its Role, it could never lead.
*/}}
{{- define "mcu.extraArg" -}}
{{- $remedies := dict
      "--leader-elect" "the chart always sets it"
      "--listen" "the chart always sets it, as the probes need it"
      "--lease-name" "the Role of the chart allows only the Lease mcu-controller"
      "--lease-namespace" "the Role of the chart allows only a Lease in the namespace of the release"
      "--spoke-rbac" "set the value spokeRBAC instead"
      "--approver-image" "set the value approverImage instead" }}
{{- $flag := first (splitList "=" .) }}
{{- with get $remedies $flag }}
{{- fail (printf "extraArgs must not contain %s: %s" $flag .) }}
{{- end }}
{{- . }}
{{- end }}
