//! The platform's CRDs, read from the Go modules that define them.
//!
//! This file lists the CRD files of a hub and of a spoke. The modules are pinned in `e2e/hub-tools/crds`; `go` verifies
//! their checksums. A copy of the files in the tool cache makes later runs independent of Go.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::apply::parse_yaml;
use crate::assets::{self, Go, ToolCache};

const OCM: &str = "open-cluster-management.io/api";
const OPENSHIFT: &str = "github.com/openshift/api";
const OLM: &str = "github.com/operator-framework/api";

/// What OCM's placement controller and the product need on a hub. The placement controller syncs no cache
/// without the scores.
const OCM_HUB: [&str; 7] = [
    "cluster/v1/0000_00_clusters.open-cluster-management.io_managedclusters.crd.yaml",
    "cluster/v1beta2/0000_00_clusters.open-cluster-management.io_managedclustersets.crd.yaml",
    "cluster/v1beta2/0000_01_clusters.open-cluster-management.io_managedclustersetbindings.crd.yaml",
    "cluster/v1beta1/0000_02_clusters.open-cluster-management.io_placements.crd.yaml",
    "cluster/v1beta1/0000_03_clusters.open-cluster-management.io_placementdecisions.crd.yaml",
    "cluster/v1alpha1/0000_05_clusters.open-cluster-management.io_addonplacementscores.crd.yaml",
    "work/v1/0000_00_work.open-cluster-management.io_manifestworks.crd.yaml",
];

/// What OCM's registration controller watches besides: add-ons, of which a hub need have none.
const OCM_REGISTRATION: [&str; 1] =
    ["addon/v1alpha1/0000_01_addon.open-cluster-management.io_managedclusteraddons.crd.yaml"];

/// What OCM's agents keep on a spoke.
const OCM_SPOKE: [&str; 2] = [
    "work/v1/0000_01_work.open-cluster-management.io_appliedmanifestworks.crd.yaml",
    "cluster/v1alpha1/0000_02_clusters.open-cluster-management.io_clusterclaims.crd.yaml",
];

const OLM_SPOKE: [&str; 5] = [
    "crds/operators.coreos.com_catalogsources.yaml",
    "crds/operators.coreos.com_clusterserviceversions.yaml",
    "crds/operators.coreos.com_installplans.yaml",
    "crds/operators.coreos.com_operatorgroups.yaml",
    "crds/operators.coreos.com_subscriptions.yaml",
];

/// Which of OpenShift's generated variants of a CRD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureSet {
    /// The default version of a cluster.
    Default,
    /// The community distribution.
    Okd,
    /// With previewed fields, `acceptRisks` and `conditionalUpdateRisks` among them.
    TechPreview,
}

impl FeatureSet {
    fn suffix(self) -> &'static str {
        match self {
            Self::Default => "Default",
            Self::Okd => "OKD",
            Self::TechPreview => "TechPreviewNoUpgrade",
        }
    }
}

/// OCM's hub CRDs: clusters, sets, bindings, placements, decisions, scores, `ManifestWork`s.
///
/// # Errors
/// The module is not in the tool cache and cannot be fetched by Go.
pub async fn ocm_hub_crds() -> Result<Vec<Value>> {
    read(OCM, &OCM_HUB.map(str::to_owned)).await
}

/// What OCM's registration controller needs on a hub besides [`ocm_hub_crds`].
///
/// # Errors
/// As [`ocm_hub_crds`].
pub async fn ocm_registration_crds() -> Result<Vec<Value>> {
    read(OCM, &OCM_REGISTRATION.map(str::to_owned)).await
}

/// OCM's spoke CRDs: applied works and claims.
///
/// # Errors
/// As [`ocm_hub_crds`].
pub async fn ocm_spoke_crds() -> Result<Vec<Value>> {
    read(OCM, &OCM_SPOKE.map(str::to_owned)).await
}

/// OpenShift's `ClusterVersion`, `ClusterOperator` and `MachineConfigPool`.
///
/// # Errors
/// As [`ocm_hub_crds`].
pub async fn openshift_crds(features: FeatureSet) -> Result<Vec<Value>> {
    let (config, machines) = (
        "config/v1/zz_generated.crd-manifests",
        "machineconfiguration/v1/zz_generated.crd-manifests",
    );
    let set = features.suffix();
    let files = [
        format!("{config}/0000_00_cluster-version-operator_01_clusterversions-{set}.crd.yaml"),
        format!("{config}/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml"),
        format!("{config}/0000_10_config-operator_01_featuregates.crd.yaml"),
        format!("{machines}/0000_80_machine-config_01_machineconfigpools-{set}.crd.yaml"),
    ];
    read(OPENSHIFT, &files).await
}

/// The operator lifecycle manager's subscriptions, install plans, versions, catalogs and groups.
///
/// # Errors
/// As [`ocm_hub_crds`].
pub async fn olm_crds() -> Result<Vec<Value>> {
    read(OLM, &OLM_SPOKE.map(str::to_owned)).await
}

async fn read(module: &str, files: &[String]) -> Result<Vec<Value>> {
    let cache = ToolCache::from_env()?;
    let mut objects = Vec::new();
    for path in cached_copies(&cache, "crds", module, files).await? {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read the CRD {}", path.display()))?;
        objects.extend(parse_yaml(&text).with_context(|| path.display().to_string())?);
    }
    Ok(objects)
}

/// Texts of a module's files, read by way of the cache; `pins` is the directory of `e2e/hub-tools` that requires it.
///
/// # Errors
/// As [`ocm_hub_crds`].
pub(crate) async fn texts(pins: &str, module: &str, files: &[String]) -> Result<Vec<String>> {
    let cache = ToolCache::from_env()?;
    let read = |path: PathBuf| {
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let copies = cached_copies(&cache, pins, module, files).await?;
    copies.into_iter().map(read).collect()
}

/// The files in the cache, copied there from the module first if they are missing.
async fn cached_copies(
    cache: &ToolCache,
    pins: &str,
    module: &str,
    files: &[String],
) -> Result<Vec<PathBuf>> {
    let dir = assets::hub_tools().join(pins);
    let go_mod = std::fs::read_to_string(dir.join("go.mod"))?;
    let go_sum = std::fs::read_to_string(dir.join("go.sum"))?;
    let version = assets::module_version(&go_mod, module)
        .ok_or_else(|| anyhow!("{}/go.mod does not require {module}", dir.display()))?;

    let mut digest = Sha256::new();
    go_sum
        .lines()
        .filter(|line| line.starts_with(module))
        .for_each(|line| digest.update(line));
    for file in files {
        digest.update(file);
    }
    let entry = cache
        .dir()
        .join(format!("crds-{version}-{}", assets::hex(&digest.finalize(), 6)));
    let copies = files
        .iter()
        .map(|file| entry.join(file.replace('/', "_")))
        .collect();
    if entry.is_dir() {
        return Ok(copies);
    }
    let source = module_dir(&dir, module).await?;
    let scratch = tempfile::Builder::new().prefix("crds.").tempdir_in(cache.dir())?;
    for file in files {
        let from = source.join(file);
        let text = std::fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
        std::fs::write(scratch.path().join(file.replace('/', "_")), text)?;
    }
    assets::publish(scratch, &entry)?;
    Ok(copies)
}

#[derive(Deserialize)]
struct Download {
    #[serde(rename = "Dir", default)]
    dir: String,
    #[serde(rename = "Error", default)]
    error: String,
}

/// The directory of a required module, downloaded and verified by Go.
async fn module_dir(pins: &Path, module: &str) -> Result<PathBuf> {
    let go = Go::find(&assets::hub_tools()).await.map_err(|why| {
        anyhow!("the CRDs of {module} are not in the tool cache and cannot be fetched ({why:#}): install Go 1.26 or later")
    })?;
    let output = go
        .command(pins)
        .args(["mod", "download", "-json", module])
        .output()
        .await?;
    let text = String::from_utf8_lossy(&output.stdout);
    let download: Download = serde_json::from_str(&text)
        .map_err(|_| anyhow!("{}", String::from_utf8_lossy(&output.stderr).trim().to_owned()))
        .with_context(|| format!("go mod download {module}"))?;
    if !download.error.is_empty() {
        bail!("go mod download {module}: {}", download.error);
    }
    Ok(PathBuf::from(download.dir))
}
