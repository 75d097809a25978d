//! Who may do what: the controller's account, viewers, editors, and those who have only the built-in roles.

use anyhow::Result;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use testenv::hub::wait_until;

use crate::installed::{
    CONTROLLER, DEVELOPER, EDITOR, EXECUTOR, HUB_UPGRADER, PLACER, VIEWER, WAIT_TIMEOUT, installed,
};

const CLUSTER: &str = "cluster.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const POLICY: &str = "managedclustersupgrade-works";
const LEASES: &str = "coordination.k8s.io";
const NIL_EXECUTOR: &str = "system:serviceaccount::klusterlet-work-sa";

/// One question to the authorizer: `verb group/resource[/subresource]` in a namespace, on a name.
struct Ask<'a> {
    verb: &'a str,
    group: &'a str,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Ask<'a> {
    fn of(verb: &'a str, group: &'a str, resource: &'a str, namespace: &'a str) -> Self {
        Ask {
            verb,
            group,
            resource,
            namespace,
            name: "",
        }
    }

    fn named(self, name: &'a str) -> Self {
        Ask { name, ..self }
    }

    async fn allowed(&self, client: &Client, user: &str) -> Result<bool> {
        let (resource, subresource) = self.resource.split_once('/').unwrap_or((self.resource, ""));
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let account = user
            .strip_prefix("system:serviceaccount:")
            .and_then(|rest| rest.split(':').next());
        let groups = account.map(|namespace| {
            vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
            ]
        });
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                groups,
                resource_attributes: Some(ResourceAttributes {
                    verb: some(self.verb),
                    group: some(self.group),
                    resource: some(resource),
                    subresource: some(subresource),
                    namespace: some(self.namespace),
                    name: some(self.name),
                    ..Default::default()
                }),
                ..Default::default()
            },
            ..Default::default()
        };
        let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }
}

/// Asks everything; all answers must be `expected`.
async fn all(user: &str, expected: bool, questions: &[Ask<'_>]) -> Result<()> {
    let admin = installed().await?.admin().await?;
    let mut wrong = Vec::new();
    for ask in questions {
        if ask.allowed(&admin, user).await? != expected {
            wrong.push(format!(
                "{} {}/{} in {:?} {}",
                ask.verb, ask.group, ask.resource, ask.namespace, ask.name
            ));
        }
    }
    assert!(wrong.is_empty(), "{user}, should be {expected}: {wrong:?}");
    Ok(())
}

#[tokio::test]
async fn the_controller_may_do_its_work() -> Result<()> {
    let mut questions = Vec::new();
    for resource in [
        "managedclusters",
        "managedclustersets",
        "managedclustersetbindings",
        "placements",
        "placementdecisions",
    ] {
        questions.extend(["get", "list", "watch"].map(|verb| Ask::of(verb, CLUSTER, resource, "")));
    }
    for verb in ["get", "list", "watch", "create", "patch", "delete"] {
        questions.push(Ask::of(verb, WORK, "manifestworks", "spoke1"));
        questions.push(Ask::of(verb, CLUSTER, "managedclustersupgradereports", "team-a"));
    }
    for verb in ["get", "list", "watch", "patch"] {
        questions.push(Ask::of(verb, CLUSTER, "managedclustersupgrades", "team-a"));
    }
    questions.extend(
        ["get", "list", "watch"]
            .map(|verb| Ask::of(verb, CLUSTER, "managedclustersupgradeapprovals", "team-a")),
    );
    questions.extend([
        Ask::of("patch", CLUSTER, "managedclustersupgrades/status", "team-a"),
        Ask::of("update", CLUSTER, "managedclustersupgrades/finalizers", "team-a"),
        Ask::of("execute-as", WORK, "manifestworks", "spoke1").named(NIL_EXECUTOR),
        Ask::of("create", "events.k8s.io", "events", "team-a"),
        Ask::of("create", LEASES, "leases", "mcu-system"),
    ]);
    for resource in ["validatingadmissionpolicies", "validatingadmissionpolicybindings"] {
        questions.push(Ask::of("list", ADMISSION, resource, ""));
    }
    for verb in ["get", "watch", "update"] {
        questions.push(Ask::of(verb, LEASES, "leases", "mcu-system").named("mcu-controller"));
    }
    all(CONTROLLER, true, &questions).await
}

#[tokio::test]
async fn the_controller_may_do_nothing_else() -> Result<()> {
    let questions = [
        Ask::of("create", CLUSTER, "managedclustersupgrades", "team-a"),
        Ask::of("delete", CLUSTER, "managedclustersupgrades", "team-a"),
        Ask::of("create", CLUSTER, "managedclustersupgradeapprovals", "team-a"),
        Ask::of("delete", CLUSTER, "managedclustersupgradeapprovals", "team-a"),
        Ask::of("update", CLUSTER, "managedclusters", ""),
        Ask::of("patch", CLUSTER, "managedclusters/status", ""),
        Ask::of("create", CLUSTER, "managedclustersetbindings", "team-a"),
        Ask::of("create", CLUSTER, "placements", "team-a"),
        Ask::of("update", CLUSTER, "placementdecisions/status", "team-a"),
        Ask::of("update", CLUSTER, "managedclustersupgrades", "team-a"),
        Ask::of("update", WORK, "manifestworks", "spoke1"),
        Ask::of("patch", WORK, "manifestworks/status", "spoke1"),
        Ask::of("deletecollection", WORK, "manifestworks", "spoke1"),
        Ask::of("execute-as", WORK, "manifestworks", "spoke1"),
        Ask::of("execute-as", WORK, "manifestworks", "spoke1").named(EXECUTOR),
        Ask::of("upgrade", CLUSTER, "managedclusters", "").named("local-cluster"),
        Ask::of("watch", ADMISSION, "validatingadmissionpolicies", ""),
        Ask::of("create", ADMISSION, "validatingadmissionpolicybindings", ""),
        Ask::of("patch", ADMISSION, "validatingadmissionpolicies", "").named(POLICY),
        Ask::of("delete", ADMISSION, "validatingadmissionpolicybindings", "").named(POLICY),
        Ask::of("get", "", "secrets", "mcu-system"),
        Ask::of("get", "", "configmaps", "mcu-system"),
        Ask::of("get", "", "namespaces", ""),
        Ask::of("get", "", "pods", "mcu-system"),
        Ask::of("update", LEASES, "leases", "mcu-system").named("another"),
        Ask::of("delete", LEASES, "leases", "mcu-system").named("mcu-controller"),
        Ask::of("get", LEASES, "leases", "spoke1").named("managed-cluster-lease"),
        Ask::of("create", LEASES, "leases", "kube-system"),
        Ask::of("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""),
        Ask::of("escalate", "rbac.authorization.k8s.io", "clusterroles", ""),
        Ask::of("impersonate", "", "users", ""),
    ];
    all(CONTROLLER, false, &questions).await
}

#[tokio::test]
async fn whoever_may_view_a_namespace_sees_upgrades_and_reports_and_writes_none() -> Result<()> {
    let admin = installed().await?.admin().await?;
    for user in [VIEWER, DEVELOPER] {
        for resource in [
            "managedclustersupgrades",
            "managedclustersupgradereports",
            "managedclustersupgradeapprovals",
        ] {
            // The role is aggregated by a controller, some time after it is applied.
            wait_until("the viewer's role is aggregated", WAIT_TIMEOUT, async || {
                Ask::of("list", CLUSTER, resource, "team-a")
                    .allowed(&admin, user)
                    .await
            })
            .await?;
        }
        let mut writes = Vec::new();
        for verb in ["create", "update", "patch", "delete"] {
            writes.push(Ask::of(verb, CLUSTER, "managedclustersupgrades", "team-a"));
            writes.push(Ask::of(verb, CLUSTER, "managedclustersupgradereports", "team-a"));
        }
        writes.push(Ask::of("list", CLUSTER, "managedclustersupgrades", "team-b"));
        all(user, false, &writes).await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_editor_writes_upgrades_but_neither_their_status_nor_reports() -> Result<()> {
    let mut may = Vec::new();
    for verb in ["get", "list", "watch", "create", "update", "patch", "delete"] {
        may.push(Ask::of(verb, CLUSTER, "managedclustersupgrades", "team-a"));
    }
    may.extend(
        ["get", "list", "watch"]
            .map(|verb| Ask::of(verb, CLUSTER, "managedclustersupgradereports", "team-a")),
    );
    all(EDITOR, true, &may).await?;
    let may_not = [
        Ask::of("update", CLUSTER, "managedclustersupgrades/status", "team-a"),
        Ask::of("create", CLUSTER, "managedclustersupgradeapprovals", "team-a"),
        Ask::of("create", CLUSTER, "managedclustersupgradereports", "team-a"),
        Ask::of("patch", CLUSTER, "managedclustersupgradereports", "team-a"),
        Ask::of("create", CLUSTER, "managedclustersupgrades", "team-b"),
        Ask::of("create", WORK, "manifestworks", "team-a"),
    ];
    all(EDITOR, false, &may_not).await
}

#[tokio::test]
async fn an_editor_of_placements_writes_nothing_that_the_controller_takes_for_its_own() -> Result<()> {
    all(
        PLACER,
        true,
        &[Ask::of("create", CLUSTER, "placements", "team-a")],
    )
    .await?;
    let may_not = [
        Ask::of("create", CLUSTER, "placementdecisions", "team-a"),
        Ask::of("patch", CLUSTER, "placementdecisions/status", "team-a"),
        Ask::of("create", CLUSTER, "managedclustersetbindings", "team-a"),
        Ask::of("get", CLUSTER, "placements", "team-b"),
        Ask::of("create", CLUSTER, "managedclustersupgrades", "team-a"),
        Ask::of("create", CLUSTER, "managedclustersupgradereports", "team-a"),
        Ask::of("patch", WORK, "manifestworks", "team-a"),
    ];
    all(PLACER, false, &may_not).await
}

#[tokio::test]
async fn upgrading_the_hub_comes_with_no_other_role() -> Result<()> {
    let hub = || [Ask::of("upgrade", CLUSTER, "managedclusters", "").named("local-cluster")];
    for user in [EDITOR, VIEWER, DEVELOPER, PLACER] {
        all(user, false, &hub()).await?;
    }
    all(HUB_UPGRADER, true, &hub()).await?;
    all(
        HUB_UPGRADER,
        false,
        &[Ask::of("upgrade", CLUSTER, "managedclusters", "").named("spoke1")],
    )
    .await
}
