//! Arguments of the commands about approvals.

use chrono::TimeDelta;
use clap::Args;

use super::values::{duration, object_name};

pub(super) const APPROVALS_EXAMPLES: &str = "\
Examples:
  # What waits for an approval, in all namespaces
  kubectl mcu approvals -A

  # The checkpoints of one upgrade, and who approved
  kubectl mcu approvals spring";

pub(super) const APPROVE_EXAMPLES: &str = "\
Examples:
  # Show what would be approved
  kubectl mcu approve spring after-canaries --dry-run

  kubectl mcu approve spring after-canaries --message CHG0042

  # The approval ceases to count after four hours
  kubectl mcu approve spring half --message CHG0042 --expires-in 4h";

/// Flags of `approvals`.
#[derive(Clone, Debug, Args)]
pub struct ApprovalsArgs {
    /// Name of the upgrade. The default is all upgrades of the namespace, or with -A of all namespaces.
    #[arg(value_parser = object_name)]
    pub name: Option<String>,
}

/// Flags of `approve`.
#[derive(Clone, Debug, Args)]
pub struct ApproveArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Name of the checkpoint. It may be left out if the upgrade waits at one only.
    #[arg(value_parser = object_name)]
    pub checkpoint: Option<String>,
    /// Why, or for which change. It is kept with the approval.
    #[arg(short, long, value_name = "TEXT", default_value = "")]
    pub message: String,
    /// How long the approval counts, such as 4h. If unset, it does not expire.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub expires_in: Option<TimeDelta>,
    /// Approve nothing, and print what would be approved and the manifest of the approval.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask. Without a terminal, nothing is asked in any case.
    #[arg(short, long)]
    pub yes: bool,
}
