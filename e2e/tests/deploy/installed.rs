//! The hub that all tests of this binary share: OCM's CRDs, then `kubectl apply -k deploy`, and some users.
//!
//! Each test has its own namespaces, names and clients: a client ends with the runtime of the
//! test that made it. The hub's processes end with this process; its directory is removed by the next hub.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::core::{ApiResource, GroupVersionKind, TypeMeta};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use testenv::hub::wait_until;
use testenv::{Controllers, Hub, HubKubeconfig};
use tokio::sync::OnceCell;

/// May only edit MCUs in namespace `team-a`.
pub const EDITOR: &str = "edith";
/// As [`EDITOR`]; besides, may get Placements in `team-b` and use [`EXECUTOR`].
pub const LENT: &str = "lena";
/// As [`EDITOR`]; besides, may upgrade the hub.
pub const HUB_UPGRADER: &str = "hugo";
/// May edit Placements in namespace `team-a`.
pub const PLACER: &str = "pia";
/// Has the cluster role `view` in `team-a`.
pub const VIEWER: &str = "vera";
/// Has the cluster role `edit` in `team-a`.
pub const DEVELOPER: &str = "dan";
/// The controller's own user name.
pub const CONTROLLER: &str = "system:serviceaccount:mcu-system:mcu-controller";
/// The executor that [`LENT`] may use.
pub const EXECUTOR: &str = "system:serviceaccount:backup:runner";
/// How long the control plane may take to act on what was written.
pub const WAIT_TIMEOUT: Duration = Duration::from_mins(1);

/// A hub with deploy/ on it.
pub struct Installed {
    pub hub: Hub,
    /// The controller's own account.
    pub controller: HubKubeconfig,
    /// CRDs that were there before the installation, by name, with their resource version then.
    pub before: BTreeMap<String, Option<String>>,
}

static INSTALLED: OnceCell<Installed> = OnceCell::const_new();

/// The shared hub, started and installed by whichever test comes first.
pub async fn installed() -> Result<&'static Installed> {
    INSTALLED.get_or_try_init(install).await
}

async fn install() -> Result<Installed> {
    let hub = Hub::builder()
        .ocm_crds()
        .controller_manager(Controllers::collectors())
        .user(EDITOR, &[])
        .user(LENT, &[])
        .user(HUB_UPGRADER, &[])
        .user(VIEWER, &[])
        .user(DEVELOPER, &[])
        .start()
        .await?;
    let before = crds(hub.client()).await?;
    kubectl(&hub, &["apply", "-k", &deploy_dir().to_string_lossy()]).await?;
    let controller = hub
        .service_account_kubeconfig("mcu-system", "mcu-controller")
        .await?;
    let installed = Installed {
        hub,
        controller,
        before,
    };
    testenv::apply::apply_objects(installed.hub.client(), &users()).await?;
    installed.wait_for_policies().await?;
    Ok(installed)
}

/// Resource versions of all CRDs, by name.
pub async fn crds(client: &Client) -> Result<BTreeMap<String, Option<String>>> {
    let crds = any(
        client,
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        None,
    );
    let list = crds.list(&ListParams::default()).await?;
    Ok(list
        .iter()
        .map(|crd| (crd.name_any(), crd.resource_version()))
        .collect())
}

fn users() -> Vec<Value> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let role = |kind: &str, metadata: Value, group: &str, resource: &str, verb: &str, names: &[&str]| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            "rules": [{"apiGroups": [group], "resources": [resource], "verbs": [verb], "resourceNames": names}],
        })
    };
    let binding = |kind: &str, metadata: Value, role: (&str, &str), users: &[&str]| {
        let subject =
            |user: &&str| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1},
            "subjects": users.iter().map(subject).collect::<Vec<_>>(),
        })
    };
    let in_a = |name: &str| json!({"name": name, "namespace": "team-a"});
    let in_b = |name: &str| json!({"name": name, "namespace": "team-b"});
    let (cluster, work) = (
        "cluster.open-cluster-management.io",
        "work.open-cluster-management.io",
    );
    let everywhere = json!({"name": "executor-backup"});
    vec![
        namespace("team-a"),
        namespace("team-b"),
        binding(
            "RoleBinding",
            in_a("editors"),
            ("ClusterRole", "mcu-editor"),
            &[EDITOR, LENT, HUB_UPGRADER],
        ),
        binding(
            "ClusterRoleBinding",
            json!({"name": "hub-upgraders"}),
            ("ClusterRole", "mcu-hub-upgrader"),
            &[HUB_UPGRADER],
        ),
        role("Role", in_a("placers"), cluster, "placements", "*", &[]),
        binding("RoleBinding", in_a("placers"), ("Role", "placers"), &[PLACER]),
        binding("RoleBinding", in_a("viewers"), ("ClusterRole", "view"), &[VIEWER]),
        binding(
            "RoleBinding",
            in_a("developers"),
            ("ClusterRole", "edit"),
            &[DEVELOPER],
        ),
        role("Role", in_b("lend"), cluster, "placements", "get", &[]),
        binding("RoleBinding", in_b("lend"), ("Role", "lend"), &[LENT]),
        role(
            "ClusterRole",
            everywhere.clone(),
            work,
            "manifestworks",
            "execute-as",
            &[EXECUTOR],
        ),
        binding(
            "ClusterRoleBinding",
            everywhere,
            ("ClusterRole", "executor-backup"),
            &[LENT],
        ),
    ]
}

impl Installed {
    /// Runs `kubectl apply -k deploy`; returns its lines.
    pub async fn apply_deploy(&self) -> Result<Vec<String>> {
        let deploy = deploy_dir();
        let output = self.kubectl(&["apply", "-k", &deploy.to_string_lossy()]).await?;
        Ok(output.lines().map(str::to_owned).collect())
    }

    /// Runs kubectl as the administrator.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        kubectl(&self.hub, args).await
    }

    /// A client of the administrator.
    pub async fn admin(&self) -> Result<Client> {
        self.hub.kubeconfig().client().await
    }

    /// A client of one of the users.
    pub async fn as_user(&self, name: &str) -> Result<Client> {
        self.hub
            .kubeconfig_for_user(name)
            .context("no such user")?
            .client()
            .await
    }

    /// Until the API server has compiled the policies, it admits everything.
    async fn wait_for_policies(&self) -> Result<()> {
        let (editor, admin) = (self.as_user(EDITOR).await?, self.admin().await?);
        let borrowing = spec_with(json!({"placement": [{"name": "p", "namespace": "team-b"}]}));
        let hub = spec_with(json!({"clusterSelector": {"matchLabels": {"name": "local-cluster"}}}));
        let work = json!({"spec": {"workload": {"manifests": []}}});
        let kinds = [
            (
                "work.open-cluster-management.io/v1",
                "ManifestWork",
                "default-cluster-upgrade",
                work,
            ),
            (
                "cluster.open-cluster-management.io/v1beta1",
                "ManagedClustersUpgradeReport",
                "probe-report-1",
                json!({}),
            ),
        ];
        wait_until("the admission policies are in force", WAIT_TIMEOUT, async || {
            let mut answers = vec![
                try_create(&editor, "team-a", "probe", &borrowing).await.map(drop),
                try_create(&editor, "team-a", "probe", &hub).await.map(drop),
            ];
            for (version, kind, name, data) in &kinds {
                let probe = DynamicObject {
                    data: data.clone(),
                    ..upgrade(name, &Value::Null)
                };
                let probe = DynamicObject {
                    types: Some(TypeMeta {
                        api_version: (*version).to_owned(),
                        kind: (*kind).to_owned(),
                    }),
                    ..probe
                };
                let created = any(&admin, version, kind, Some("default"))
                    .create(&dry_run(), &probe)
                    .await;
                answers.push(created.map(drop).map_err(|error| error.to_string()));
            }
            let denied = |answer: &Result<(), String>| {
                answer
                    .as_ref()
                    .is_err_and(|error| error.contains("ValidatingAdmissionPolicy"))
            };
            Ok(answers.iter().all(denied))
        })
        .await
    }
}

/// Waits until the API server has checked the types of these policies; it has nothing to say of any.
pub async fn type_checked(policies: &[&str]) -> Result<()> {
    let admin = installed().await?.admin().await?;
    let all = any(
        &admin,
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        None,
    );
    for name in policies {
        wait_until(&format!("{name} is type-checked"), WAIT_TIMEOUT, async || {
            let policy = all.get(name).await?;
            Ok(policy.data["status"]["observedGeneration"].as_i64() == policy.metadata.generation)
        })
        .await?;
        let checked = all.get(name).await?;
        let warnings = &checked.data["status"]["typeChecking"]["expressionWarnings"];
        assert_eq!(*warnings, Value::Null, "{name}: {warnings:#}");
    }
    Ok(())
}

fn dry_run() -> PostParams {
    PostParams {
        dry_run: true,
        ..Default::default()
    }
}

/// Runs kubectl without its discovery cache, which lags behind new CRDs and is keyed by the port alone.
async fn kubectl(hub: &Hub, args: &[&str]) -> Result<String> {
    hub.kubectl(&[&["--cache-dir=/dev/null"], args].concat()).await
}

/// The directory that users apply.
pub fn deploy_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// Objects of any kind, in a namespace or in none.
pub fn any(client: &Client, api_version: &str, kind: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// MCUs of a namespace, unparsed: the API server is to judge them, not our types.
pub fn upgrades(client: &Client, namespace: &str) -> Api<DynamicObject> {
    any(
        client,
        "cluster.open-cluster-management.io/v1beta1",
        "ManagedClustersUpgrade",
        Some(namespace),
    )
}

/// An MCU that is not sent yet.
pub fn upgrade(name: &str, spec: &Value) -> DynamicObject {
    DynamicObject {
        types: Some(TypeMeta {
            api_version: "cluster.open-cluster-management.io/v1beta1".to_owned(),
            kind: "ManagedClustersUpgrade".to_owned(),
        }),
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        data: json!({"spec": spec}),
    }
}

/// A valid spec with some fields set.
pub fn spec_with(fields: Value) -> Value {
    let mut spec = json!({"clusterVersion": {"version": "4.12.0"}});
    if let (Some(spec), Value::Object(fields)) = (spec.as_object_mut(), fields) {
        spec.extend(fields);
    }
    spec
}

/// What the API server would store for an MCU, or its message; nothing is stored.
pub async fn try_create(client: &Client, namespace: &str, name: &str, spec: &Value) -> Result<Value, String> {
    let created = upgrades(client, namespace)
        .create(&dry_run(), &upgrade(name, spec))
        .await;
    created
        .map(|object| object.data)
        .map_err(|error| error.to_string())
}

/// Fails unless a Deployment's two pods meet the restricted Pod Security Standard, and the namespace refuses them after
/// `loosen` has changed their container.
pub async fn pods_are_restricted(
    installed: &Installed,
    namespace: &str,
    name: &str,
    loosen: impl FnOnce(&mut Value),
) -> Result<()> {
    let admin = installed.admin().await?;
    let deployments = any(&admin, "apps/v1", "Deployment", Some(namespace));
    let deployment = deployments.get(name).await?;
    assert_eq!(deployment.data["spec"]["replicas"], 2);
    let spec = &deployment.data["spec"]["template"]["spec"];
    let mut loose = spec.clone();
    loosen(&mut loose["containers"][0]);

    let pods: Api<Pod> = Api::namespaced(admin, namespace);
    let dry = PostParams {
        dry_run: true,
        ..Default::default()
    };
    let pod =
        |spec: &Value| serde_json::from_value::<Pod>(json!({"metadata": {"name": "one"}, "spec": spec}));
    pods.create(&dry, &pod(spec)?).await?;
    let refused = pods
        .create(&dry, &pod(&loose)?)
        .await
        .err()
        .context("refused")?
        .to_string();
    assert!(refused.contains("violates PodSecurity \"restricted"), "{refused}");
    Ok(())
}
