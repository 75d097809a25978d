//! What is in the binary: the packages of `Cargo.lock` that the program depends on, as cargo resolves them, and their bill of
//! materials in the format of `CycloneDX`.
//!
//! Cargo resolves the features of the workspace as a whole here, so the list may name a package that this program does without;
//! it never misses one.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, Node, Package, PackageId, TargetKind};
use cyclonedx_bom::external_models::uri::Purl;
use cyclonedx_bom::models::bom::{Bom, SpecVersion};
use cyclonedx_bom::models::component::{Classification, Component, Components};
use cyclonedx_bom::models::dependency;
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::metadata::Metadata as About;
use repository::root;

/// The packages in a program.
#[derive(Debug)]
pub(super) struct Dependencies {
    /// The program's own package.
    pub program: Package,
    /// The others, by name and version.
    pub packages: Vec<Package>,
    /// What each directly depends on, by reference.
    edges: BTreeMap<String, BTreeSet<String>>,
}

impl Dependencies {
    /// Asks cargo for the packages in a program when it is built for the target. What runs only while it is built, such as
    /// build scripts and procedural macros, is left out.
    pub(super) fn read(program: &str, target: &str) -> Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(root().join("Cargo.toml"))
            .other_options(["--locked".to_owned(), format!("--filter-platform={target}")])
            .exec()
            .context("cargo metadata")?;
        let resolve = metadata.resolve.context("cargo resolved nothing")?;
        let nodes: BTreeMap<&PackageId, &Node> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
        let packages: BTreeMap<&PackageId, &Package> = metadata
            .packages
            .iter()
            .map(|package| (&package.id, package))
            .collect();
        let own = metadata
            .packages
            .iter()
            .find(|package| package.name.as_str() == program);
        let own = own.with_context(|| format!("no package {program}"))?;
        let mut found = BTreeSet::new();
        let mut edges = BTreeMap::new();
        let mut open = vec![&own.id];
        while let Some(id) = open.pop() {
            if !found.insert(id) {
                continue;
            }
            let node = nodes.get(id).context("a package without a node")?;
            let linked = node.deps.iter().filter(|dependency| {
                let kinds = &dependency.dep_kinds;
                let is_normal = kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
                is_normal
                    && packages
                        .get(&dependency.pkg)
                        .is_some_and(|package| !is_macro(package))
            });
            let linked: Vec<&PackageId> = linked.map(|dependency| &dependency.pkg).collect();
            let references = linked
                .iter()
                .filter_map(|id| packages.get(*id))
                .map(|other| reference(other));
            edges.insert(reference(packages[id]), references.collect());
            open.extend(linked);
        }
        let mut others: Vec<Package> = found
            .into_iter()
            .filter(|id| **id != own.id)
            .map(|id| packages[id].clone())
            .collect();
        others.sort_by_key(reference);
        Ok(Self {
            program: own.clone(),
            packages: others,
            edges,
        })
    }

    /// The program's version.
    pub(super) fn version(&self) -> String {
        self.program.version.to_string()
    }
}

fn is_macro(package: &Package) -> bool {
    package
        .targets
        .iter()
        .any(|target| target.kind.contains(&TargetKind::ProcMacro))
}

fn reference(package: &Package) -> String {
    format!("{}@{}", package.name, package.version)
}

/// The bill of materials, the same for the same packages: it has neither a time nor a random number.
pub(super) fn render(dependencies: &Dependencies) -> Result<Vec<u8>> {
    let components = dependencies.packages.iter();
    let components = components.map(|package| component(package, Classification::Library));
    let edges = dependencies
        .edges
        .iter()
        .map(|(from, to)| dependency::Dependency {
            dependency_ref: from.clone(),
            dependencies: to.iter().cloned().collect(),
        });
    let bom = Bom {
        version: 1,
        serial_number: None,
        metadata: Some(About {
            component: Some(component(&dependencies.program, Classification::Application)?),
            ..About::default()
        }),
        components: Some(Components(components.collect::<Result<_>>()?)),
        dependencies: Some(dependency::Dependencies(edges.collect())),
        spec_version: SpecVersion::V1_5,
        ..Bom::default()
    };
    let mut bytes = Vec::new();
    bom.output_as_json(&mut bytes, SpecVersion::V1_5)?;
    Ok(bytes)
}

fn component(package: &Package, kind: Classification) -> Result<Component> {
    let version = package.version.to_string();
    let mut component = Component::new(kind, &package.name, &version, Some(reference(package)));
    // Members of the workspace are on no registry.
    if package.source.is_some() {
        component.purl = Some(Purl::new("cargo", &package.name, &version)?);
    }
    let licence = package.license.as_deref().map(|text| text.replace('/', " OR "));
    component.licenses = licence.map(|text| Licenses(vec![LicenseChoice::expression(&text)]));
    Ok(component)
}
