//! The directories of `examples/`, applied as a user would.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use api::ManagedClustersUpgrade;
use kube::api::{Api, ListParams};
use testenv::apply::apply_yaml;

use crate::image::root;
use crate::installed::installed;

/// The directories, each of which is an example.
pub fn examples() -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(root().join("examples"))?;
    let paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| path.is_dir()).collect())
}

#[tokio::test]
async fn every_example_is_accepted_by_a_hub() -> Result<()> {
    let admin = installed().await?.admin().await?;
    let examples = examples()?;
    for example in &examples {
        let entries = std::fs::read_dir(example)?.map(|entry| Ok(entry?.path()));
        let mut paths = entries.collect::<Result<Vec<_>>>()?;
        // kubectl applies the files of a directory in the order of their names.
        paths.sort();
        for path in paths {
            let yaml = std::fs::read_to_string(&path)?;
            apply_yaml(&admin, &yaml)
                .await
                .with_context(|| path.display().to_string())?;
        }
    }
    let upgrades = Api::<ManagedClustersUpgrade>::all(admin)
        .list(&ListParams::default())
        .await?;
    assert!(upgrades.items.len() >= examples.len(), "{}", upgrades.items.len());
    Ok(())
}
