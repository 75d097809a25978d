//! The simulated agents of `spoke-sim` and OCM's work agent: the same works give the same status and the same objects.
//!
//! One hub with two clusters: behind `real` a spoke with OCM's agent under OCM's roles, behind `fake` a simulated cluster
//! whose controllers keep still, as they do on the spoke. Every case is a work (now and then two) and what happens to it
//! and to its objects; after every step both clusters must report the same, except for timestamps and UIDs.

mod cases;
mod compare;
mod old_agent;
mod pair;

use anyhow::{Result, bail};

use crate::cases::{Case, conditions, deletion, failures, feedback, preflight, strategies};
use crate::pair::Pair;

/// One test, because an API server costs more time than all works together.
#[tokio::test]
async fn the_same_works_give_the_same_status_and_objects_by_the_real_agent_and_by_the_fake_one() -> Result<()>
{
    let pair = Pair::start().await?;
    let mut differences = pair.play(&failures::without_permission()).await?;
    pair.grant().await?;
    let all: Vec<Case> = [
        strategies::all(),
        deletion::all(),
        feedback::all(),
        conditions::all(),
        failures::all(),
        preflight::all()?,
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(all.len() >= 30, "{} cases", all.len());
    differences.extend(pair.play(&all).await?);
    pair.stop().await?;
    if differences.is_empty() {
        return Ok(());
    }
    bail!(
        "{} differences (- real, + fake):\n{}",
        differences.len(),
        differences.join("\n")
    )
}
