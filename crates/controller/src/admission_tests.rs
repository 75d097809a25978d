use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::telemetry::health::{brief, passes};

/// A hub with admission policies and nothing else.
#[derive(Clone, Default)]
struct Hub(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    policies: BTreeSet<&'static str>,
    bindings: BTreeSet<&'static str>,
    forbidden: bool,
    asked: usize,
}

impl Hub {
    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.0.lock().unwrap());
    }

    fn asked(&self) -> usize {
        self.0.lock().unwrap().asked
    }

    fn answer(&self, path: &str) -> (u16, Value) {
        let mut known = self.0.lock().unwrap();
        known.asked += 1;
        let name = path.rsplit('/').next().unwrap();
        let there = |names: &BTreeSet<&str>| names.contains(name);
        let failed = |code: u16, reason: &str| {
            (
                code,
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
                    "message": format!("{name} is {reason}"), "code": code}),
            )
        };
        let object = |kind: &str, spec: Value| {
            let metadata = json!({"name": name});
            (
                200,
                json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}),
            )
        };
        let binds = path.contains("/validatingadmissionpolicybindings/");
        assert!(binds || path.contains("/validatingadmissionpolicies/"), "{path}");
        if known.forbidden {
            failed(403, "Forbidden")
        } else if binds && there(&known.bindings) {
            object(
                BINDING_KIND,
                json!({"policyName": name, "validationActions": ["Deny"]}),
            )
        } else if !binds && there(&known.policies) {
            object(POLICY_KIND, json!({}))
        } else {
            failed(404, "NotFound")
        }
    }

    fn client(&self) -> Client {
        let hub = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (code, body) = hub.answer(request.uri().path());
            let body = Body::from(body.to_string().into_bytes());
            let answer = Response::builder().status(code).body(body).unwrap();
            async move { Ok::<_, std::io::Error>(answer) }
        });
        Client::new(service, "default")
    }
}

fn complete() -> Hub {
    let hub = Hub::default();
    hub.change(|known| {
        known.policies.extend(POLICIES);
        known.bindings.extend(POLICIES);
    });
    hub
}

/// Follows the policies of a hub for a moment, or for this time, while nobody or somebody asks for readiness.
async fn followed(hub: &Hub, time: Duration, asks: bool) -> (String, String) {
    let (readiness, metrics) = (Readiness::new(), Metrics::new());
    readiness.register("all").pass();
    let leadership = lease::Handle::always();
    let client = hub.client();
    let probe = async {
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            if asks {
                assert!(passes(&readiness.ready()), "a policy never makes it unready");
            }
        }
    };
    let following = async {
        tokio::join!(probe, follow(&client, &readiness, &metrics, &leadership));
    };
    let _ = tokio::time::timeout(time, following).await;
    let shown = metrics.encode_classic().unwrap();
    let line = shown
        .lines()
        .find(|line| line.starts_with("mcu_admission_policies_missing "));
    (brief(&readiness.ready()), line.unwrap_or_default().to_owned())
}

const MOMENT: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn policies_that_are_enforced_leave_readiness_as_it_is() {
    let (ready, metric) = followed(&complete(), MOMENT, false).await;
    assert_eq!(ready, "ok");
    assert_eq!(metric, "mcu_admission_policies_missing 0");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_missing_or_denies_nothing_is_named_and_the_replica_stays_ready() {
    let hub = complete();
    hub.change(|known| {
        known.policies.remove("managedclustersupgrade-works");
        known.bindings.remove("managedclustersupgrade-hub");
    });
    let (ready, metric) = followed(&hub, MOMENT, false).await;
    assert_eq!(
        ready,
        "ok\npolicies: missing: managedclustersupgrade-works; not bound with Deny: managedclustersupgrade-hub; apply deploy/, which ships them\n"
    );
    assert_eq!(metric, "mcu_admission_policies_missing 2");
}

#[tokio::test(start_paused = true)]
async fn policies_that_may_not_be_read_are_told_as_unknown() {
    let hub = complete();
    hub.change(|known| known.forbidden = true);
    let (ready, metric) = followed(&hub, MOMENT, false).await;
    assert!(
        ready.contains("policies: cannot be read: managedclustersupgrade-references, "),
        "{ready}"
    );
    assert!(ready.contains("Forbidden (403)"), "{ready}");
    assert_eq!(metric, "mcu_admission_policies_missing 4");
}

#[tokio::test(start_paused = true)]
async fn the_hub_is_asked_again_only_when_somebody_asks_and_what_is_known_is_old() {
    let hub = complete();
    followed(&hub, Duration::from_hours(3), false).await;
    assert_eq!(hub.asked(), 8, "an idle controller asks nothing");
    let hub = complete();
    followed(&hub, Duration::from_mins(25), true).await;
    assert_eq!(hub.asked(), 24, "at the start and every ten minutes");
}
