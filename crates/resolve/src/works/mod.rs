//! Renders the ManifestWorks of a cluster as JSON (`docs/design/works.md`): one per step, and the probe.
//!
//! The constant parts are rendered once per revision of a spec, and the body for a cluster is assembled from
//! them. Works are not sent here; owner and clock come in through a [`Stamp`].

mod acks;
mod action;
mod canonical;
mod operators;
mod platform;
pub mod probe;

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::ManagedClustersUpgradeSpec;
use api::names::{self, Step};
use chrono::{DateTime, Utc};
pub use observe::index::WorkRequest;
use serde::Serialize;
use serde_json::{Value, json};

/// What the platform work contains so that the work agent may write ClusterVersion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpokeRbac {
    /// `ClusterRoleBinding` `admin-ocm`: the agent becomes cluster-admin. It is deleted together with the
    /// work.
    #[default]
    AdminOcm,
    /// A least-privilege `ClusterRole` that OCM aggregates into the agent's role; it stays when the work is
    /// deleted.
    Aggregate,
    /// Nothing, because the clusters are prepared in another way.
    None,
}

/// Flags of the controller that affect works. They are part of no hash but that of a probe, which brings its role. So a changed flag
/// affects only probes, and works that are written for another reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFlags {
    /// Second manifest of the platform work.
    pub spoke_rbac: SpokeRbac,
    /// Namespace and name of the work agent's `ServiceAccount` on the clusters.
    pub agent_service_account: (String, String),
    /// Image of the installplan-approver Job; it must contain bash and `oc`.
    pub approver_image: String,
}

impl Default for WorkFlags {
    fn default() -> Self {
        WorkFlags {
            spoke_rbac: SpokeRbac::AdminOcm,
            agent_service_account: (
                "open-cluster-management-agent".to_owned(),
                "klusterlet-work-sa".to_owned(),
            ),
            approver_image: "registry.redhat.io/openshift4/ose-cli:latest".to_owned(),
        }
    }
}

/// The cluster a work is for.
#[derive(Clone, Copy, Debug)]
pub struct ClusterFacts<'a> {
    /// Name of the ManagedCluster, which is also its namespace.
    pub name: &'a str,
    /// UID of the ManagedCluster. Empty if it is unknown, which omits the annotation.
    pub uid: &'a str,
    /// OpenShift cluster ID. `None` omits the field, and the cluster keeps its own.
    pub cluster_id: Option<&'a str>,
    /// How the cluster is asked for the version.
    pub request: &'a WorkRequest,
}

/// Owner and clock, which are written as labels and annotations.
#[derive(Clone, Copy, Debug)]
pub struct Stamp<'a> {
    /// UID of the MCU.
    pub mcu_uid: &'a str,
    /// `namespace/name` of the MCU.
    pub owner: &'a str,
    /// Revision of the spec that the work serves, see [`Templates::revision`].
    pub revision: &'a str,
    /// Retry token of the attempt; empty for the first one.
    pub retry: &'a str,
    /// Start of the step's clock.
    pub started_at: DateTime<Utc>,
}

/// What all works of an MCU share; created once per revision of its spec.
#[derive(Clone, Debug)]
pub struct Templates {
    revision: String,
    steps: [Option<Template>; 4],
}

/// The constant part of one step's work.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    hash: String,
    annotations: Vec<(&'static str, String)>,
    spec: SpecTemplate,
}

/// The `spec` of a work as JSON text.
#[derive(Clone, Debug)]
enum SpecTemplate {
    /// The same for every cluster.
    Whole(String),
    /// Split at the positions of `"clusterID":"…",` and of `"image":"…"`.
    PerCluster {
        /// The text up to and including the brace that opens the ClusterVersion's spec.
        head: String,
        /// The text from the next key of the spec up to the image.
        before_image: String,
        /// Key and value of the image of the spec, as JSON.
        image: String,
        /// The text after the image.
        tail: String,
    },
}

impl Templates {
    /// Renders the works of a spec that `api::validate` has accepted.
    #[must_use]
    pub fn new(spec: &ManagedClustersUpgradeSpec, flags: &WorkFlags) -> Templates {
        let steps = Step::ALL.map(|step| match step {
            Step::PreAction => spec.pre_upgrade_action.as_ref().map(action::template),
            Step::Platform => spec
                .cluster_version
                .as_ref()
                .map(|version| platform::template(version, flags)),
            Step::Operators => operators::template(spec, flags),
            Step::PostAction => spec.post_upgrade_action.as_ref().map(action::template),
        });
        let parts: Vec<Value> = steps
            .iter()
            .map(|step| json!(step.as_ref().map(|template| &template.hash)))
            .collect();
        Templates {
            revision: canonical::hash(&Value::Array(parts)),
            steps,
        }
    }

    /// Hash (16 hex digits) of what is done to clusters: clusterVersion, ocpOperators and the actions.
    /// Timeouts, concurrency, selectors and similar fields take effect at once and are not part of it.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Hash (16 hex digits) of the part of the spec from which the step is rendered. `None` if the step is
    /// not requested (`docs/design/rules.md#operator-lists`).
    #[must_use]
    pub fn step_hash(&self, step: Step) -> Option<&str> {
        self.template(step).map(|template| template.hash.as_str())
    }

    /// The whole work as JSON, to be created by POST with field manager `mcu-controller`. `None` if the step
    /// is not requested.
    #[must_use]
    pub fn body(&self, step: Step, cluster: &ClusterFacts<'_>, stamp: &Stamp<'_>) -> Option<Vec<u8>> {
        let template = self.template(step)?;
        let annotations = template.annotations(cluster, stamp);
        Some(template.render(step, cluster, stamp, &annotations))
    }

    /// The platform work as JSON, for changing an existing one that is taken over from another MCU, gets a
    /// new target or is retried.
    ///
    /// It must be sent as a server-side apply with field manager `mcu-controller` and `force=true`. All lists
    /// in the spec of a ManifestWork are atomic, so upstream, channel or clusterID disappear with the old
    /// manifest if the new spec does not contain them. Annotations that the POST has written would stay if
    /// they were omitted, because create and apply are two managers even under one name. The retry token, the
    /// start of the soak, both target annotations, the release image and the accepted risks are therefore always present here, empty if they
    /// have no value. A later apply under the same field manager must send this whole body again; use a merge patch
    /// to change a single annotation.
    #[must_use]
    pub fn platform_apply(&self, cluster: &ClusterFacts<'_>, stamp: &Stamp<'_>) -> Option<Vec<u8>> {
        let template = self.template(Step::Platform)?;
        let mut annotations = template.annotations(cluster, stamp);
        for key in [
            names::ANNOTATION_ATTEMPT,
            names::ANNOTATION_SOAK_STARTED_AT,
            names::ANNOTATION_TARGET_VERSION,
            names::ANNOTATION_TARGET_IMAGE,
            names::ANNOTATION_RELEASE_IMAGE,
            names::ANNOTATION_ACCEPTED_RISKS,
            names::ANNOTATION_WITHDRAWN,
        ] {
            annotations.entry(key).or_insert(Cow::Borrowed(""));
        }
        Some(template.render(Step::Platform, cluster, stamp, &annotations))
    }

    fn template(&self, step: Step) -> Option<&Template> {
        Step::ALL
            .iter()
            .zip(&self.steps)
            .find(|(known, _)| **known == step)
            .and_then(|(_, template)| template.as_ref())
    }
}

type Annotations<'a> = BTreeMap<&'static str, Cow<'a, str>>;

#[derive(Serialize)]
struct WorkMetadata<'a> {
    name: String,
    namespace: &'a str,
    labels: BTreeMap<&'static str, &'a str>,
    annotations: &'a Annotations<'a>,
}

impl Template {
    fn annotations<'a>(&'a self, cluster: &ClusterFacts<'a>, stamp: &Stamp<'a>) -> Annotations<'a> {
        let mut all: Annotations<'a> = self
            .annotations
            .iter()
            .map(|(key, value)| (*key, Cow::Borrowed(value.as_str())))
            .collect();
        all.insert(names::ANNOTATION_OWNER, stamp.owner.into());
        all.insert(names::ANNOTATION_REVISION, stamp.revision.into());
        all.insert(names::ANNOTATION_STEP_HASH, self.hash.as_str().into());
        all.insert(
            names::ANNOTATION_STARTED_AT,
            api::time::to_rfc3339(stamp.started_at).into(),
        );
        if !cluster.uid.is_empty() {
            all.insert(names::ANNOTATION_CLUSTER_UID, cluster.uid.into());
        }
        if let (SpecTemplate::PerCluster { .. }, Some((key, value))) =
            (&self.spec, cluster.request.annotation())
        {
            all.insert(key, value.into());
        }
        if !stamp.retry.is_empty() {
            all.insert(names::ANNOTATION_ATTEMPT, stamp.retry.into());
        }
        all
    }

    fn render(
        &self,
        step: Step,
        cluster: &ClusterFacts<'_>,
        stamp: &Stamp<'_>,
        annotations: &Annotations<'_>,
    ) -> Vec<u8> {
        const ENVELOPE: usize = 1024;
        let metadata = json!(WorkMetadata {
            name: step.work_name(cluster.name),
            namespace: cluster.name,
            labels: BTreeMap::from([
                (names::LABEL_MCU_UID, stamp.mcu_uid),
                (names::LABEL_STEP, step.as_str()),
            ]),
            annotations,
        });
        let mut body = String::with_capacity(self.spec.len() + ENVELOPE);
        body.push_str(
            r#"{"apiVersion":"work.open-cluster-management.io/v1","kind":"ManifestWork","metadata":"#,
        );
        body.push_str(&metadata.to_string());
        body.push_str(r#","spec":"#);
        match &self.spec {
            SpecTemplate::Whole(text) => body.push_str(text),
            SpecTemplate::PerCluster {
                head,
                before_image,
                image,
                tail,
            } => {
                body.push_str(head);
                if let Some(id) = cluster.cluster_id {
                    body.push_str(r#""clusterID":"#);
                    body.push_str(&Value::from(id).to_string());
                    body.push(',');
                }
                body.push_str(before_image);
                match cluster.request {
                    WorkRequest::AsPlanned => body.push_str(image),
                    WorkRequest::Image(own) => body.push_str(&platform::image_member(own)),
                    WorkRequest::AcceptedRisks(names) => {
                        body.push_str(&platform::risks_member(names));
                        body.push(',');
                        body.push_str(image);
                    }
                }
                body.push_str(tail);
            }
        }
        body.push('}');
        body.into_bytes()
    }
}

impl SpecTemplate {
    const fn len(&self) -> usize {
        match self {
            SpecTemplate::Whole(text) => text.len(),
            SpecTemplate::PerCluster {
                head,
                before_image,
                image,
                tail,
            } => head.len() + before_image.len() + image.len() + tail.len(),
        }
    }
}

#[cfg(test)]
mod tests;
