//! What a template has instead of a text of the base.

/// A text of a file of the base, and what stands in its template.
pub(super) struct Edit {
    pub file: &'static str,
    pub find: &'static str,
    pub replacement: &'static str,
}

const fn edit(file: &'static str, find: &'static str, replacement: &'static str) -> Edit {
    Edit {
        file,
        find,
        replacement,
    }
}

/// Files that are rendered on a condition only.
pub(super) const CONDITIONS: [(&str, &str); 5] = [
    ("flow-schema.yaml", ".Values.flowControl.enabled"),
    ("network-policy.yaml", ".Values.networkPolicy.enabled"),
    ("admission-executor.yaml", ".Values.strictExecutor.enabled"),
    (SERVICE_MONITOR, ".Values.serviceMonitor.enabled"),
    (
        "openshift-platform.yaml",
        "and .Values.serviceMonitor.enabled .Values.serviceMonitor.openshiftPlatform",
    ),
];

const CONTROLLER: &str = "controller.yaml";
const SERVICE_MONITOR: &str = "service-monitor.yaml";

/// The edits, in the order in which they are made.
pub(super) const EDITS: [Edit; 17] = [
    edit(
        CONTROLLER,
        concat!(
            "    # Where no leader tells its version, kubectl mcu check and version show this beside an image by digest.
    app.kubernetes.io/version: ",
            env!("CARGO_PKG_VERSION"),
            "\n"
        ),
        "    {{- with include \"mcu.imageVersion\" . }}
    # Where no leader tells its version, kubectl mcu check and version show this beside an image by digest.
    app.kubernetes.io/version: {{ . | quote }}
    {{- end }}
",
    ),
    edit(
        CONTROLLER,
        "replicas: 2\n",
        "replicas: {{ .Values.replicaCount }}\n",
    ),
    edit(
        CONTROLLER,
        "      nodeSelector:
        kubernetes.io/os: linux
",
        "      {{- with .Values.priorityClassName }}
      priorityClassName: {{ . | quote }}
      {{- end }}
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
",
    ),
    edit(
        CONTROLLER,
        "      affinity:\n",
        "      affinity:
        {{- with .Values.affinity }}
        {{- toYaml . | nindent 8 }}
        {{- else }}
",
    ),
    edit(
        CONTROLLER,
        "      topologySpreadConstraints:\n",
        "        {{- end }}
      topologySpreadConstraints:
        {{- with .Values.topologySpreadConstraints }}
        {{- toYaml . | nindent 8 }}
        {{- else }}
",
    ),
    edit(
        CONTROLLER,
        "      securityContext:
        runAsNonRoot: true
",
        "        {{- end }}
      securityContext:
        runAsNonRoot: true
",
    ),
    edit(
        CONTROLLER,
        "image: mcu-controller\n",
        "image: {{ include \"mcu.image\" . | quote }}\n",
    ),
    edit(
        CONTROLLER,
        "imagePullPolicy: IfNotPresent\n",
        "imagePullPolicy: {{ .Values.image.pullPolicy }}\n",
    ),
    edit(
        CONTROLLER,
        "            - --spoke-rbac=aggregate\n",
        "            - --spoke-rbac={{ .Values.spokeRBAC }}
            {{- with .Values.approverImage }}
            - {{ printf \"--approver-image=%s\" . | quote }}
            {{- end }}
            {{- range .Values.extraArgs }}
            - {{ include \"mcu.extraArg\" . | quote }}
            {{- end }}
",
    ),
    edit(
        CONTROLLER,
        "      containers:\n",
        "      {{- with .Values.extraVolumes }}
      volumes:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
",
    ),
    edit(
        CONTROLLER,
        "          ports:
            - name: http
",
        "          {{- with .Values.extraVolumeMounts }}
          volumeMounts:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - name: http
",
    ),
    edit(
        CONTROLLER,
        "          resources:
            requests:
              cpu: 100m
              memory: 128Mi
            # No CPU limit: a throttled leader would renew its Lease late and lose it under high load.
            limits:
              memory: 512Mi
",
        "          resources:
            {{- toYaml .Values.resources | nindent 12 }}
",
    ),
    edit(
        CONTROLLER,
        "---
# A node drain takes one replica at a time.
",
        "---
{{- if and .Values.podDisruptionBudget.enabled (gt (int .Values.replicaCount) 1) }}
# A node drain takes one replica at a time.
",
    ),
    edit(
        CONTROLLER,
        "  minAvailable: 1
  selector:
    matchLabels:
      app.kubernetes.io/name: mcu-controller
---
",
        "  minAvailable: {{ include \"mcu.minAvailable\" . }}
  selector:
    matchLabels:
      app.kubernetes.io/name: mcu-controller
---
{{- end }}
",
    ),
    edit(
        "network-policy.yaml",
        "values: [openshift-monitoring, openshift-user-workload-monitoring, monitoring]",
        "values: {{ toJson .Values.networkPolicy.monitoringNamespaces }}",
    ),
    edit(
        SERVICE_MONITOR,
        "spec:
  selector:
",
        "    {{- with .Values.serviceMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
",
    ),
    edit(
        SERVICE_MONITOR,
        "interval: 30s\n",
        "interval: {{ .Values.serviceMonitor.interval }}\n",
    ),
];
