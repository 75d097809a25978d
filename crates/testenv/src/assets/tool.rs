//! The tools of hubs and tests, their pins, and how each prints its version.
//!
//! The pin is the module version in the tool's `go.mod`, its only copy: a binary found elsewhere satisfies it
//! with the same major and minor version.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::process::Command;

/// A binary of a hub, or one that tests run beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tool {
    /// The store.
    Etcd,
    /// The hub's API server.
    KubeApiserver,
    /// Namespace deletion, garbage collection, role aggregation, Jobs.
    KubeControllerManager,
    /// The client used to apply kustomizations.
    Kubectl,
    /// OCM's placement controller, a command of several.
    Placement,
    /// OCM's registration: the lease, taint and permission controllers of a hub.
    Registration,
    /// OCM's work: the agent that applies works on a spoke.
    Work,
    /// Answers queries of a spoke's metrics.
    Prometheus,
    /// Prometheus' checker and tester of rules; no part of a hub or spoke.
    Promtool,
    /// CNCF distribution's container registry; no part of a hub.
    Registry,
    /// Installs charts; no part of a hub.
    Helm,
    /// The Operator Framework's checker of bundles; no part of a hub.
    OperatorVerify,
    /// The manager of kubectl's plugins; no part of a hub.
    Krew,
}

impl Tool {
    /// The tools of a hub, in the order they are built: what is needed first comes first.
    pub const HUB: [Self; 5] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Placement,
        Self::Kubectl,
    ];

    /// The tools of a hub with spokes.
    pub const FLEET: [Self; 7] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Placement,
        Self::Kubectl,
        Self::Registration,
        Self::Work,
    ];

    /// Every tool.
    pub const ALL: [Self; 13] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Placement,
        Self::Kubectl,
        Self::Registration,
        Self::Work,
        Self::Prometheus,
        Self::Promtool,
        Self::Registry,
        Self::Helm,
        Self::OperatorVerify,
        Self::Krew,
    ];

    /// The file name of the binary.
    #[must_use]
    pub fn binary(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
            Self::Placement => "placement",
            Self::Registration => "registration",
            Self::Work => "work",
            Self::Prometheus => "prometheus",
            Self::Promtool => "promtool",
            Self::Registry => "registry",
            Self::Helm => "helm",
            Self::OperatorVerify => "operator-verify",
            Self::Krew => "krew",
        }
    }

    /// The directory of `e2e/hub-tools` that pins it.
    pub(super) fn pin_dir(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl => "kubernetes",
            Self::Placement | Self::Registration | Self::Work => "ocm",
            Self::Prometheus | Self::Promtool => "prometheus",
            Self::Registry => "registry",
            Self::Helm => "helm",
            Self::OperatorVerify => "operator-verify",
            Self::Krew => "krew",
        }
    }

    /// The Go module whose version is the tool's version.
    pub(super) fn module(self) -> &'static str {
        match self {
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl => "k8s.io/kubernetes",
            Self::Placement | Self::Registration | Self::Work => "open-cluster-management.io/ocm",
            Self::Prometheus | Self::Promtool => "github.com/prometheus/prometheus",
            Self::Registry => "github.com/distribution/distribution/v3",
            Self::Helm => "helm.sh/helm/v4",
            Self::OperatorVerify => "github.com/operator-framework/api",
            Self::Krew => "sigs.k8s.io/krew",
        }
    }

    /// The Go package that holds its `main`.
    pub(super) fn package(self) -> String {
        match self {
            Self::Etcd => self.module().to_owned(),
            _ => format!("{}/cmd/{}", self.module(), self.binary()),
        }
    }

    /// Build tags.
    pub(super) fn tags(self) -> &'static [&'static str] {
        match self {
            // Targets are named in its configuration: no cloud's API is built in, which is most of its build. Its
            // pages are left out as well: the module has no built ones.
            Self::Prometheus | Self::Promtool => &["remove_all_sd", "netgo"],
            _ => &[],
        }
    }

    /// Compiler flags. Every build leaves out debug information, which the linker would strip: a tenth of the work. What
    /// tests run for moments is not inlined either: another fifth. The tools of one module share their packages, so
    /// they share these flags.
    pub(super) fn compiler_flags(self) -> &'static str {
        match self {
            Self::Prometheus
            | Self::Promtool
            | Self::Registry
            | Self::Helm
            | Self::OperatorVerify
            | Self::Krew => "all=-l -dwarf=false",
            _ => "all=-dwarf=false",
        }
    }

    /// The release that a version of the module stands for: Prometheus 3.15.0 is its module's v0.315.0.
    pub(super) fn release(self, module: Version) -> Version {
        match self {
            Self::Prometheus | Self::Promtool => Version {
                major: module.minor / 100,
                minor: module.minor % 100,
                patch: module.patch,
            },
            _ => module,
        }
    }

    /// Linker flags: stripped, and with the version that `go build` of a module alone leaves out.
    pub(super) fn linker_flags(self, version: &Version) -> String {
        let stamp = match self {
            Self::KubeApiserver | Self::KubeControllerManager | Self::Kubectl => {
                let at = "k8s.io/component-base/version";
                format!(
                    " -X {at}.gitVersion=v{version} -X {at}.gitMajor={} -X {at}.gitMinor={} \
                     -X {at}.gitTreeState=clean",
                    version.major, version.minor
                )
            }
            Self::Prometheus | Self::Promtool => {
                format!(" -X github.com/prometheus/common/version.Version={version}")
            }
            Self::Placement | Self::Registration | Self::Work => {
                format!(" -X {}/pkg/version.versionFromGit=v{version}", self.module())
            }
            Self::Registry => format!(" -X {}/version.version=v{version}", self.module()),
            Self::Helm => format!(" -X {}/internal/version.version=v{version}", self.module()),
            // etcd has its version in the code, operator-verify prints none, and krew's is for its own update.
            Self::Etcd | Self::OperatorVerify | Self::Krew => String::new(),
        };
        format!("-s -w{stamp}")
    }

    fn version_args(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl => &["version", "--client"],
            Self::Helm | Self::Krew => &["version"],
            _ => &["--version"],
        }
    }

    /// Asks a binary for its version.
    ///
    /// # Errors
    /// It does not start, takes longer than 30 s, or prints no version.
    pub(super) async fn version_of(self, binary: &Path) -> Result<Version> {
        let asked = Command::new(binary)
            .args(self.version_args())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(Duration::from_secs(30), asked)
            .await
            .context("gave no version within 30 s")?
            .context("does not start")?;
        let text = String::from_utf8_lossy(&output.stdout);
        Version::find(&text)
            .or_else(|| Version::find(&String::from_utf8_lossy(&output.stderr)))
            .ok_or_else(|| anyhow!("printed no version"))
    }
}

/// A release number; what follows the patch number is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Patch number.
    pub patch: u32,
}

impl Version {
    /// The first `X.Y.Z` in a text, with or without a leading `v`.
    #[must_use]
    pub fn find(text: &str) -> Option<Self> {
        text.split(|c: char| c.is_whitespace() || matches!(c, '"' | ',' | ':'))
            .find_map(Self::parse)
    }

    fn parse(word: &str) -> Option<Self> {
        let mut parts = word.strip_prefix('v').unwrap_or(word).splitn(3, '.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        let patch = parts.next()?;
        let digits = patch.find(|c: char| !c.is_ascii_digit()).unwrap_or(patch.len());
        Some(Self {
            major,
            minor,
            patch: patch[..digits].parse().ok()?,
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// The pins of `e2e/hub-tools`, and where they are built.
#[derive(Debug, Clone)]
pub(super) struct Pin {
    pub tool: Tool,
    pub version: Version,
    /// Directory of the Go module that builds it.
    pub module_dir: PathBuf,
    /// `go.mod` and `go.sum`, as one text.
    pub source: String,
}

impl Pin {
    /// Reads the pin of a tool.
    pub(super) fn read(tool: Tool, hub_tools: &Path) -> Result<Self> {
        let module_dir = hub_tools.join(tool.pin_dir());
        let read = |name: &str| {
            let path = module_dir.join(name);
            std::fs::read_to_string(&path).with_context(|| format!("cannot read the pin {}", path.display()))
        };
        let go_mod = read("go.mod")?;
        let version = module_version(&go_mod, tool.module())
            .and_then(Version::find)
            .map(|version| tool.release(version))
            .ok_or_else(|| {
                anyhow!(
                    "{}/go.mod does not require {}",
                    module_dir.display(),
                    tool.module()
                )
            })?;
        let source = go_mod + &read("go.sum")?;
        Ok(Self {
            tool,
            version,
            module_dir,
            source,
        })
    }

    /// True when a binary of this version may be used instead of the pinned one.
    pub(super) fn accepts(&self, found: &Version) -> bool {
        (found.major, found.minor) == (self.version.major, self.version.minor)
    }

    pub(super) fn linker_flags(&self) -> String {
        self.tool.linker_flags(&self.version)
    }

    /// Flags of `go build` that set build tags; none where there are no tags.
    pub(super) fn tag_flags(&self) -> Option<String> {
        let tags = self.tool.tags();
        (!tags.is_empty()).then(|| format!("-tags={}", tags.join(",")))
    }
}

/// The version that a `go.mod` requires of a module.
pub(crate) fn module_version<'a>(go_mod: &'a str, module: &str) -> Option<&'a str> {
    go_mod.lines().find_map(|line| {
        let mut words = line.trim().trim_start_matches("require ").split_whitespace();
        let version = (words.next() == Some(module)).then(|| words.next()).flatten()?;
        version.starts_with('v').then_some(version)
    })
}

#[cfg(test)]
mod tests;
