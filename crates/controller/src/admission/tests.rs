use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::health::{Finding, passes, spec};

/// The account of the controller.
const ACCOUNT: &str = "system:serviceaccount:mcu-system:mcu-controller";

/// A hub with the admission policies of `deploy/` and nothing else.
#[derive(Clone)]
struct Hub(Arc<Mutex<Known>>);

struct Known {
    objects: Vec<Value>,
    account: &'static str,
    forbidden: bool,
    /// Method and kind of each request.
    asked: Vec<String>,
}

impl Known {
    fn remove(&mut self, kind: &str, name: &str) {
        let before = self.objects.len();
        self.objects
            .retain(|one| one["kind"] != kind || one["metadata"]["name"] != name);
        assert_eq!(self.objects.len(), before - 1);
    }
}

impl Hub {
    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.0.lock().unwrap());
    }

    fn asked(&self, request: &str) -> usize {
        let known = self.0.lock().unwrap();
        known.asked.iter().filter(|asked| *asked == request).count()
    }

    fn answer(&self, request: &Request<Body>) -> (u16, Value) {
        let mut known = self.0.lock().unwrap();
        let plural = request.uri().path().rsplit('/').next().unwrap();
        known.asked.push(format!("{} {plural}", request.method()));
        let kind = match plural {
            _ if known.forbidden => {
                let message = format!("{plural} is forbidden");
                let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403,
                    "reason": "Forbidden", "message": message});
                return (403, status);
            }
            "selfsubjectreviews" => {
                let status = json!({"userInfo": {"username": known.account}});
                return (
                    201,
                    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "status": status}),
                );
            }
            "validatingadmissionpolicies" => POLICY_KIND,
            "validatingadmissionpolicybindings" => BINDING_KIND,
            _ => panic!("{plural}"),
        };
        let query = request.uri().query().unwrap_or_default();
        assert!(
            query.contains("labelSelector=app.kubernetes.io%2Fname%3Dmcu-controller"),
            "{query}"
        );
        let items: Vec<&Value> = known.objects.iter().filter(|one| one["kind"] == kind).collect();
        (
            200,
            json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}),
        )
    }

    fn client(&self) -> Client {
        let hub = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (code, body) = hub.answer(&request);
            let body = Body::from(body.to_string().into_bytes());
            let answer = Response::builder().status(code).body(body).unwrap();
            async move { Ok::<_, std::io::Error>(answer) }
        });
        Client::new(service, "default")
    }
}

fn complete() -> Hub {
    let files = [
        include_str!("../../../../deploy/admission-policy.yaml"),
        include_str!("../../../../deploy/admission-works.yaml"),
        include_str!("../../../../deploy/admission-reports.yaml"),
        include_str!("../../../../deploy/admission-approvals.yaml"),
        include_str!("../../../../deploy/admission-hub.yaml"),
    ];
    let objects = files
        .map(|file| testenv::apply::parse_yaml(file).unwrap())
        .concat();
    Hub(Arc::new(Mutex::new(Known {
        objects,
        account: ACCOUNT,
        forbidden: false,
        asked: Vec::new(),
    })))
}

/// Follows the policies of a hub for `time`. `asks`: someone requests `/readyz` meanwhile.
async fn followed(hub: &Hub, time: Duration, asks: bool) -> (String, String) {
    let (findings, metric) = follow_for(hub, time, asks, false).await;
    assert!(
        passes(&findings),
        "a policy that is not required never makes it unready"
    );
    (spec(&findings), metric)
}

/// As [`followed`], with the findings of `/readyz`. `required`: as the flag says by default.
async fn follow_for(hub: &Hub, time: Duration, asks: bool, required: bool) -> (Vec<Finding>, String) {
    let (readiness, metrics) = (Readiness::new(), Metrics::new());
    readiness.register("all").pass();
    let leadership = lease::Handle::always();
    let client = hub.client();
    let probe = async {
        loop {
            tokio::time::sleep(Duration::from_secs(10)).await;
            if asks {
                let _ = readiness.ready();
            }
        }
    };
    let following = async {
        tokio::join!(
            probe,
            follow(&client, &readiness, &metrics, &leadership, required)
        );
    };
    let _ = tokio::time::timeout(time, following).await;
    let shown = metrics.encode_classic().unwrap();
    let line = shown
        .lines()
        .find(|line| line.starts_with("mcu_admission_policies_missing "));
    (readiness.ready(), line.unwrap_or_default().to_owned())
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
        known.remove(POLICY_KIND, "managedclustersupgrade-works");
        known.remove(BINDING_KIND, "managedclustersupgrade-hub");
    });
    let (ready, metric) = followed(&hub, MOMENT, false).await;
    assert_eq!(
        ready,
        "ok\npolicies: missing: managedclustersupgrade-works; not bound with Deny: managedclustersupgrade-hub; apply deploy/, which contains them\n"
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
    assert!(ready.contains("is forbidden (403)"), "{ready}");
    assert_eq!(metric, "mcu_admission_policies_missing 5");
}

#[tokio::test(start_paused = true)]
async fn policies_that_exempt_another_account_than_the_controllers_own_are_told() {
    let hub = complete();
    hub.change(|known| known.account = "system:serviceaccount:fleet-upgrades:mcu-controller");
    let (ready, metric) = followed(&hub, MOMENT, false).await;
    assert_eq!(
        ready,
        "ok\npolicies: written for another account than the controller's: managedclustersupgrade-works, managedclustersupgrade-reports; apply deploy/, which contains them\n"
    );
    assert_eq!(metric, "mcu_admission_policies_missing 2");
}

#[tokio::test(start_paused = true)]
async fn the_hub_is_asked_again_only_when_somebody_asks_and_what_is_known_is_old() {
    let requests = |hub: &Hub| {
        [
            "GET validatingadmissionpolicies",
            "GET validatingadmissionpolicybindings",
            "POST selfsubjectreviews",
        ]
        .map(|request| hub.asked(request))
    };
    let hub = complete();
    followed(&hub, Duration::from_hours(3), false).await;
    assert_eq!(requests(&hub), [1, 1, 1], "nobody asks for readiness");
    let hub = complete();
    followed(&hub, Duration::from_secs(605), true).await;
    assert_eq!(requests(&hub), [21, 21, 1], "at the start and twice a minute");
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_removed_or_changed_under_a_running_controller_shows_within_a_minute() {
    type Change = fn(&mut Known);
    let changes: [(Change, &str); 3] = [
        (
            |known| known.remove(POLICY_KIND, "managedclustersupgrade-works"),
            "policies: missing: managedclustersupgrade-works;",
        ),
        (
            |known| known.remove(BINDING_KIND, "managedclustersupgrade-works"),
            "policies: not bound with Deny: managedclustersupgrade-works;",
        ),
        (
            |known| known.objects[0]["spec"]["validations"] = json!([]),
            "policies: changed or from another release: managedclustersupgrade-references;",
        ),
    ];
    for (change, expected) in changes {
        let hub = complete();
        let later = hub.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_mins(5)).await;
            later.change(change);
        });
        let (ready, _) = followed(&hub, Duration::from_mins(6), true).await;
        assert!(ready.contains(expected), "{ready}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_requires_the_policies_is_ready_only_where_the_hub_enforces_them() {
    type Change = fn(&mut Known);
    let enforces: [Change; 3] = [
        |_| {},
        // As between two releases.
        |known| known.objects[0]["spec"]["validations"] = json!([]),
        |known| known.forbidden = true,
    ];
    let is_open: [Change; 3] = [
        |known| known.remove(POLICY_KIND, "managedclustersupgrade-works"),
        |known| known.remove(BINDING_KIND, "managedclustersupgrade-works"),
        |known| known.objects[0]["spec"]["failurePolicy"] = json!("Ignore"),
    ];
    let changes = enforces.map(|change| (change, true)).into_iter();
    for (change, ready) in changes.chain(is_open.map(|change| (change, false))) {
        let hub = complete();
        hub.change(change);
        let (findings, _) = follow_for(&hub, MOMENT, false, true).await;
        assert_eq!(passes(&findings), ready, "{findings:?}");
    }
}
