//! The cluster operators of a release, their run levels, and how long each takes to update.
//!
//! The figures are those of real updates (4.14 to 4.16, quiet clusters in a cloud): etcd at 6 minutes, kube-apiserver
//! at 13, machine-api at 24, a parallel batch to 30, network and dns to 37, then the machines.

/// One operator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Name of its `ClusterOperator`.
    pub name: &'static str,
    /// Its run level. It starts when all operators of lower run levels are updated and healthy.
    pub run_level: usize,
    /// How many minutes its update takes.
    pub minutes: f64,
}

/// One run level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunLevel {
    /// Share of the manifests that are applied when it begins.
    pub from: f64,
    /// Share of the manifests that are applied when its last operator is updated.
    pub to: f64,
}

/// The run levels. The progress stays at their lower ends for some time: the plateaus of real updates (12 %, 16 %, 79 %, 85 %).
pub const RUN_LEVELS: [RunLevel; 8] = [
    RunLevel {
        from: 0.124,
        to: 0.124,
    },
    RunLevel {
        from: 0.125,
        to: 0.13,
    },
    RunLevel { from: 0.14, to: 0.15 },
    RunLevel {
        from: 0.162,
        to: 0.17,
    },
    RunLevel { from: 0.25, to: 0.36 },
    RunLevel {
        from: 0.40,
        to: 0.785,
    },
    RunLevel { from: 0.79, to: 0.84 },
    RunLevel {
        from: 0.853,
        to: 0.86,
    },
];

/// The run level of machine-config, the last.
pub const MACHINES: usize = RUN_LEVELS.len() - 1;

/// Name of the operator that updates the machines.
pub const MACHINE_CONFIG: &str = "machine-config";

/// Operators with a static pod on every master. They are degraded while a master reboots.
pub const STATIC_PODS: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];

const fn row(name: &'static str, run_level: usize, minutes: f64) -> Row {
    Row {
        name,
        run_level,
        minutes,
    }
}

/// All operators, by run level.
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

/// The number of manifests in the payload of a version.
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
    use super::{MACHINES, OPERATORS, RUN_LEVELS};

    #[test]
    fn operators_are_sorted_by_stage_and_named_once() {
        assert!(OPERATORS.is_sorted_by_key(|row| row.run_level));
        let mut names: Vec<_> = OPERATORS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), OPERATORS.len());
        for run_level in 0..RUN_LEVELS.len() {
            assert!(
                OPERATORS.iter().any(|row| row.run_level == run_level),
                "run level {run_level} is empty"
            );
        }
    }

    #[test]
    fn progress_grows_from_stage_to_stage() {
        assert!(RUN_LEVELS.iter().all(|run_level| run_level.from <= run_level.to));
        assert!(RUN_LEVELS.windows(2).all(|pair| pair[0].to < pair[1].from));
    }

    #[test]
    fn operators_take_what_they_take_on_real_clusters() {
        let until = |run_level: usize| -> f64 {
            (0..=run_level)
                .map(|run_level| {
                    let of_stage = OPERATORS.iter().filter(|row| row.run_level == run_level);
                    of_stage.map(|row| row.minutes).fold(0.0, f64::max)
                })
                .sum()
        };
        // Minutes of real updates, less the 1.5 that pass before the new operator runs.
        for (run_level, low, high) in [
            (0, 3.0, 7.0),
            (1, 10.0, 13.0),
            (2, 15.0, 18.0),
            (4, 21.0, 24.0),
            (5, 24.0, 32.0),
            (6, 33.0, 40.0),
        ] {
            assert!(
                (low..=high).contains(&until(run_level)),
                "run level {run_level}: {}",
                until(run_level)
            );
        }
        assert_eq!(OPERATORS[32].run_level, MACHINES);
    }
}
