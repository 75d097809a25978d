//! Which controllers kube-controller-manager runs on a hub.

/// Controllers that kube-controller-manager runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controllers(Vec<String>);

impl Controllers {
    /// Namespace deletion, garbage collection, role aggregation, policy checks: what a hub needs.
    #[must_use]
    pub fn collectors() -> Self {
        Self::named(&[
            "namespace-controller",
            "garbage-collector-controller",
            "clusterrole-aggregation-controller",
            "validatingadmissionpolicy-status-controller",
        ])
    }

    /// [`Controllers::collectors`] and default `ServiceAccounts`: nothing writes the status of workloads.
    #[must_use]
    pub fn quiet() -> Self {
        let mut all = Self::collectors();
        all.0.push("serviceaccount-controller".to_owned());
        all
    }

    /// [`Controllers::collectors`], default `ServiceAccounts`, and Jobs. Each new namespace costs a
    /// `ServiceAccount`.
    #[must_use]
    pub fn standard() -> Self {
        let mut all = Self::collectors();
        all.0
            .extend(["serviceaccount-controller", "job-controller"].map(str::to_owned));
        all
    }

    /// Controllers by kube-controller-manager's names.
    #[must_use]
    pub fn named(names: &[&str]) -> Self {
        Self(names.iter().map(|&name| name.to_owned()).collect())
    }

    pub(super) fn flag(&self) -> String {
        format!("--controllers={}", self.0.join(","))
    }
}
