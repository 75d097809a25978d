//! How a platform work asks one cluster for the version.

use std::sync::Arc;

use api::names::{ANNOTATION_ACCEPTED_RISKS, ANNOTATION_RELEASE_IMAGE};
use clusterversion::preflight::Request;

/// How a platform work asks its cluster for the version, where that differs from the spec. The work notes it in an annotation, so that
/// a later change asks in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WorkRequest {
    /// By what the spec says.
    #[default]
    AsPlanned,
    /// Together with the release image that the cluster reports for the version.
    Image(Arc<str>),
    /// Together with the names of risks that the cluster is to accept, separated by spaces.
    AcceptedRisks(Arc<str>),
}

impl WorkRequest {
    /// The request that annotations note.
    pub(super) fn noted(mut note: impl FnMut(&str) -> Arc<str>) -> Self {
        let (image, risks) = (note(ANNOTATION_RELEASE_IMAGE), note(ANNOTATION_ACCEPTED_RISKS));
        match (image.is_empty(), risks.is_empty()) {
            (true, true) => Self::AsPlanned,
            (true, false) => Self::AcceptedRisks(risks),
            (false, _) => Self::Image(image),
        }
    }

    /// Key and value of the annotation that notes the request, if one does.
    #[must_use]
    pub fn annotation(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::AsPlanned => None,
            Self::Image(image) => Some((ANNOTATION_RELEASE_IMAGE, image)),
            Self::AcceptedRisks(names) => Some((ANNOTATION_ACCEPTED_RISKS, names)),
        }
    }
}

impl From<&Request> for WorkRequest {
    fn from(request: &Request) -> Self {
        match request {
            Request::AsPlanned => Self::AsPlanned,
            Request::ByImage(image) => Self::Image(Arc::from(image.as_str())),
            Request::AcceptingRisks(names) => Self::AcceptedRisks(Arc::from(names.join(" "))),
        }
    }
}
