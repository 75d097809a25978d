//! Flags of `dashboard`.

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  # Print the address of a page with the upgrades of the namespace, until Ctrl-C
  kubectl mcu dashboard -n upgrades

  # All namespaces, on a port that a tunnel can name, with pause, resume and retry
  kubectl mcu dashboard -A --port 8090 --allow-actions";

/// Flags of `dashboard`.
#[derive(Clone, Debug, Args)]
pub struct DashboardArgs {
    /// Port of the loopback interface to listen on. 0 means a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// Let the page pause, resume and retry upgrades, with your rights. Without it, the page only reads.
    #[arg(long)]
    pub allow_actions: bool,
}
