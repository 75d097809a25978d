//! The verdict before an update, compared with the request that a person may send by `kubectl mcu updates --to`.

use clusterversion::gates::ConfigMap;
use clusterversion::preflight::{Facts, Health, Offer, PlannedUpdate, Request, Verdict, judge};
use clusterversion::types::{ClusterOperatorCondition, ConditionStatus};
use clusterversion::updates::{RequestOptions, update_request};

use super::File;

/// A cluster is ready exactly if the update may be requested, in the same form: without accepted risks, and with all of its risks
/// accepted. Returns how many verdicts were compared.
pub fn verdicts_agree_with_requests(files: &[File]) -> usize {
    let nothing = ConfigMap::of::<&str, &str>([]);
    let mut compared = 0;
    for object in files.iter().flat_map(|file| &file.objects) {
        let status = &object.status;
        let conditional = status.conditional_updates.iter().map(|update| &update.release);
        let listed = status.available_updates.iter().chain(conditional);
        let versions = listed.map(|release| release.version.as_str()).chain(["9.9.9"]);
        for version in versions.filter(|version| *version != status.desired.version) {
            let mut facts = Facts::of(object, Some((&nothing, &nothing)), version);
            // Only what the cluster offers is compared.
            facts.health = Ok(well());
            facts.gates = Ok(Vec::new());
            let risks = match facts.offer.as_ref().unwrap() {
                Offer::Conditional { risks, .. } => risks.iter().map(|risk| risk.name.clone()).collect(),
                _ => Vec::new(),
            };
            for accept in [false, true] {
                let plan = PlannedUpdate {
                    version: version.to_owned(),
                    accepted_risks: risks.iter().filter(|_| accept).cloned().collect(),
                    ..PlannedUpdate::default()
                };
                let allowed = RequestOptions {
                    not_recommended: accept,
                    warnings: true,
                };
                let sent = update_request(object, version, allowed).ok();
                let sent = sent.map(|request| request.patch["spec"]["desiredUpdate"]["image"].clone());
                let verdict = judge(&facts, &plan);
                let ready = match &verdict {
                    Verdict::Ready(Request::AsPlanned) => Some(""),
                    Verdict::Ready(Request::ByImage(image)) => Some(image.as_str()),
                    Verdict::Ready(Request::AcceptingRisks(_)) => {
                        panic!("no cluster has told that it accepts risks by name")
                    }
                    Verdict::Blocked(_) | Verdict::Unknown(_) => None,
                };
                assert_eq!(ready.map(Into::into), sent, "{version}: {verdict:?}");
                compared += 1;
            }
        }
    }
    compared
}

fn well() -> Health {
    let condition = |kind: &str, status| {
        Some(ClusterOperatorCondition {
            kind: kind.to_owned(),
            status,
            ..ClusterOperatorCondition::default()
        })
    };
    Health {
        progressing: condition("Progressing", ConditionStatus::False),
        failing: condition("Failing", ConditionStatus::False),
        retrieved: condition("RetrievedUpdates", ConditionStatus::True),
        upgradeable: None,
        blocks_patch_updates: false,
    }
}
