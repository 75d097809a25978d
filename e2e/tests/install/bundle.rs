//! The OLM bundle, judged by the Operator Framework's own checker.

use std::path::Path;

use anyhow::Result;
use repository::root;
use testenv::Tool;
use tokio::process::Command;

use crate::helm::{output, tool};

/// Only the controller writes reports, so an example of one would help nobody.
const DECLARED: &str = "Kind=ManagedClustersUpgradeReport: provided API should have an example annotation";

/// What the checker has to say of a bundle. It ends with 0 whatever it finds.
async fn findings(bundle: &Path) -> Result<Vec<String>> {
    let mut checker = Command::new(tool(Tool::OperatorVerify).await?);
    checker.args(["manifests", "--object_validate"]).arg(bundle);
    let (_, told) = output(&mut checker).await?;
    Ok(told.lines().map(str::to_owned).collect())
}

#[tokio::test]
async fn the_checker_of_bundles_finds_nothing_but_the_missing_example_of_a_report() -> Result<()> {
    let found = findings(&root().join(package::bundle::DIRECTORY)).await?;
    let others: Vec<&String> = found.iter().filter(|line| !line.contains(DECLARED)).collect();
    assert!(others.is_empty(), "{others:#?}");
    Ok(())
}

#[tokio::test]
async fn the_checker_of_bundles_finds_a_missing_crd_and_a_wrong_version() -> Result<()> {
    // The checker skips directories whose names begin with a dot.
    let broken = tempfile::Builder::new().prefix("bundle-").tempdir()?;
    let bundle = root().join(package::bundle::DIRECTORY);
    for directory in ["manifests", "metadata"] {
        std::fs::create_dir(broken.path().join(directory))?;
        for entry in std::fs::read_dir(bundle.join(directory))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default();
            let text = std::fs::read_to_string(&path)?;
            if name.to_string_lossy().contains("customresourcedefinition") {
                continue;
            }
            let text = text.replace("minKubeVersion: \"1.30.0\"", "minKubeVersion: soon");
            std::fs::write(broken.path().join(directory).join(name), text)?;
        }
    }
    let found = findings(broken.path()).await?.join("\n");
    for part in ["Kind=ManagedClustersUpgrade\\\" not found in bundle", "soon"] {
        assert!(found.contains(part), "{part}: {found}");
    }
    assert!(found.contains("level=error"), "{found}");
    Ok(())
}
