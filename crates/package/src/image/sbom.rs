//! What is in the binary: the packages that cargo links into the program, and their bill of materials in the format of `CycloneDX`.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use cargo_metadata::{MetadataCommand, Package};
use cyclonedx_bom::external_models::uri::Purl;
use cyclonedx_bom::models::bom::{Bom, SpecVersion};
use cyclonedx_bom::models::component::{Classification, Component, Components};
use cyclonedx_bom::models::dependency;
use cyclonedx_bom::models::license::{LicenseChoice, Licenses};
use cyclonedx_bom::models::metadata::Metadata as About;
use repository::{cargo, root};

/// For each package, by reference, those that it directly depends on.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// The packages in a program.
#[derive(Debug)]
pub(super) struct Dependencies {
    /// The program's own package.
    pub program: Package,
    /// The others, by name and version.
    pub packages: Vec<Package>,
    edges: Edges,
}

impl Dependencies {
    /// Asks cargo for the packages in a program when it is built for the target. What runs only while it is built, such as
    /// build scripts and procedural macros, is left out.
    pub(super) fn read(program: &str, target: &str) -> Result<Self> {
        let edges = edges(&tree(program, target)?)?;
        let metadata = MetadataCommand::new()
            .manifest_path(root().join("Cargo.toml"))
            .other_options(["--locked".to_owned(), format!("--filter-platform={target}")])
            .exec()
            .context("cargo metadata")?;
        let mut known: BTreeMap<String, Package> = metadata
            .packages
            .into_iter()
            .map(|package| (reference(&package), package))
            .collect();
        let (mut own, mut packages) = (None, Vec::new());
        for name in edges.keys() {
            let package = known
                .remove(name)
                .with_context(|| format!("cargo metadata has no package {name}"))?;
            if package.name.as_str() == program {
                own = Some(package);
            } else {
                packages.push(package);
            }
        }
        Ok(Self {
            program: own.with_context(|| format!("no package {program}"))?,
            packages,
            edges,
        })
    }

    /// The program's version.
    pub(super) fn version(&self) -> String {
        self.program.version.to_string()
    }
}

/// The dependencies of a program, a package on each line after its depth. `cargo metadata` does not say this: it has the features
/// of the workspace as a whole, which add packages that only another program uses.
fn tree(program: &str, target: &str) -> Result<String> {
    let output = cargo()
        .args(["tree", "--locked", "--color", "never", "--package", program])
        .args(["--target", target, "--edges", "normal,no-proc-macro"])
        .args(["--prefix", "depth", "--format", " {p}"])
        .output()
        .context("cargo does not start")?;
    ensure!(
        output.status.success(),
        "cargo tree: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// The edges of a tree. A package that occurs again has a star there in place of its dependencies.
fn edges(tree: &str) -> Result<Edges> {
    let mut edges = Edges::new();
    let mut ancestors: Vec<String> = Vec::new();
    for line in tree.lines().filter(|line| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let depth = words.next().and_then(|depth| depth.parse::<usize>().ok());
        let version = |word: &str| word.strip_prefix('v').map(str::to_owned);
        let (Some(depth), Some(name), Some(version)) = (depth, words.next(), words.next().and_then(version))
        else {
            bail!("a line of cargo tree is no package: {line}");
        };
        let package = format!("{name}@{version}");
        ancestors.truncate(depth);
        if let Some(parent) = ancestors.last() {
            let direct = edges.entry(parent.clone()).or_default();
            direct.insert(package.clone());
        }
        edges.entry(package.clone()).or_default();
        ancestors.push(package);
    }
    Ok(edges)
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

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "\
0 mcu-controller v0.1.0 (file:///repository/crates/controller)
1 api v0.1.0 (file:///repository/crates/api)
2 serde v1.0.228
3 serde_core v1.0.228
1 toml v1.1.2+spec-1.1.0
2 serde_core v1.0.228
1 serde v1.0.228 (*)
";

    #[test]
    fn a_tree_says_what_each_package_depends_on_even_where_it_is_shortened() {
        let found = edges(TREE).unwrap();
        let of = |package: &str| found[package].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(
            of("mcu-controller@0.1.0"),
            ["api@0.1.0", "serde@1.0.228", "toml@1.1.2+spec-1.1.0"]
        );
        assert_eq!(of("api@0.1.0"), ["serde@1.0.228"]);
        assert_eq!(of("serde@1.0.228"), ["serde_core@1.0.228"]);
        assert_eq!(of("toml@1.1.2+spec-1.1.0"), ["serde_core@1.0.228"]);
        assert!(of("serde_core@1.0.228").is_empty());
        assert_eq!(found.len(), 5);
    }

    #[test]
    fn a_tree_of_another_shape_is_an_error_and_no_shorter_list() {
        for line in [
            "mcu-controller v0.1.0",
            "0 mcu-controller",
            "0 mcu-controller (*)",
        ] {
            assert!(edges(line).is_err(), "{line}");
        }
    }
}
