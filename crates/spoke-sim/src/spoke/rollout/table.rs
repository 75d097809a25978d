//! Which cluster operators there are, in which order they update, and how long each takes.
//!
//! Figures are those of real updates (4.14 to 4.16, quiet clusters in a cloud): etcd at 6 minutes, kube-apiserver
//! at 13, machine-api at 24, a parallel batch to 30, network and dns to 37, then the machines.

/// One operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Name of its `ClusterOperator`.
    pub name: &'static str,
    /// Its run level: it begins when all of lower stages are level and well.
    pub stage: usize,
    /// What it takes to update, minutes.
    pub minutes: f64,
}

/// One run level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Share of the manifests that are applied when it begins.
    pub from: f64,
    /// Share when its last operator is level.
    pub to: f64,
}

/// The run levels. The message stands still at their lower ends: the plateaus of real updates (12 %, 16 %, 79 %, 85 %).
pub const STAGES: [Stage; 8] = [
    Stage {
        from: 0.124,
        to: 0.124,
    },
    Stage {
        from: 0.125,
        to: 0.13,
    },
    Stage { from: 0.14, to: 0.15 },
    Stage {
        from: 0.162,
        to: 0.17,
    },
    Stage { from: 0.25, to: 0.36 },
    Stage {
        from: 0.40,
        to: 0.785,
    },
    Stage { from: 0.79, to: 0.84 },
    Stage {
        from: 0.853,
        to: 0.86,
    },
];

/// The stage of machine-config, the last.
pub const MACHINES: usize = STAGES.len() - 1;

/// Name of the operator of the machines.
pub const MACHINE_CONFIG: &str = "machine-config";

/// Operators with a static pod on every master: they suffer while one reboots.
pub const STATIC_PODS: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

const fn row(name: &'static str, stage: usize, minutes: f64) -> Row {
    Row { name, stage, minutes }
}

/// All operators, by stage.
pub const OPERATORS: [Row; 33] = [
    row("config-operator", 0, 1.0),
    row("etcd", 0, 4.5),
    row("kube-apiserver", 1, 7.0),
    row("kube-controller-manager", 2, 4.8),
    row("kube-scheduler", 3, 1.1),
    row("cloud-controller-manager", 4, 1.0),
    row("cluster-autoscaler", 4, 0.6),
    row("control-plane-machine-set", 4, 0.8),
    row("machine-api", 4, 4.5),
    row("machine-approver", 4, 0.5),
    row("authentication", 5, 5.0),
    row("baremetal", 5, 0.7),
    row("cloud-credential", 5, 1.0),
    row("console", 5, 3.5),
    row("csi-snapshot-controller", 5, 1.2),
    row("image-registry", 5, 2.0),
    row("ingress", 5, 2.5),
    row("insights", 5, 1.0),
    row("kube-storage-version-migrator", 5, 0.8),
    row("marketplace", 5, 0.7),
    row("monitoring", 5, 4.5),
    row("node-tuning", 5, 1.5),
    row("openshift-apiserver", 5, 5.5),
    row("openshift-controller-manager", 5, 1.8),
    row("openshift-samples", 5, 1.0),
    row("operator-lifecycle-manager", 5, 1.4),
    row("operator-lifecycle-manager-catalog", 5, 1.0),
    row("operator-lifecycle-manager-packageserver", 5, 1.9),
    row("service-ca", 5, 0.9),
    row("storage", 5, 3.0),
    row("dns", 6, 5.0),
    row("network", 6, 6.5),
    row(MACHINE_CONFIG, MACHINES, 1.0),
];

/// How many manifests the payload of a version has.
#[must_use]
pub fn manifests(version: &str) -> u32 {
    match semver::Version::parse(version).map_or((0, 0), |version| (version.major, version.minor)) {
        (0..=3, _) | (4, 0..=14) => 859,
        (4, 15) => 863,
        (4, 16 | 17) => 892,
        (4, 18) => 890,
        (4, 19..=22) => 957,
        _ => 1021,
    }
}

#[cfg(test)]
mod tests {
    use super::{MACHINES, OPERATORS, STAGES};

    #[test]
    fn operators_are_sorted_by_stage_and_named_once() {
        assert!(OPERATORS.is_sorted_by_key(|row| row.stage));
        let mut names: Vec<_> = OPERATORS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OPERATORS.len());
        for stage in 0..STAGES.len() {
            assert!(
                OPERATORS.iter().any(|row| row.stage == stage),
                "stage {stage} is empty"
            );
        }
    }

    #[test]
    fn progress_grows_from_stage_to_stage() {
        assert!(STAGES.iter().all(|stage| stage.from <= stage.to));
        assert!(STAGES.windows(2).all(|pair| pair[0].to < pair[1].from));
    }

    #[test]
    fn operators_take_what_they_take_on_real_clusters() {
        let until = |stage: usize| -> f64 {
            (0..=stage)
                .map(|stage| {
                    let of_stage = OPERATORS.iter().filter(|row| row.stage == stage);
                    of_stage.map(|row| row.minutes).fold(0.0, f64::max)
                })
                .sum()
        };
        // Minutes of real updates, less the 1.5 that pass before the new operator runs.
        for (stage, low, high) in [
            (0, 3.0, 7.0),
            (1, 10.0, 13.0),
            (2, 15.0, 18.0),
            (4, 21.0, 24.0),
            (5, 24.0, 32.0),
            (6, 33.0, 40.0),
        ] {
            assert!(
                (low..=high).contains(&until(stage)),
                "stage {stage}: {}",
                until(stage)
            );
        }
        assert_eq!(OPERATORS[32].stage, MACHINES);
    }
}
