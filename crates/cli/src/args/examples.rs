//! Examples of the help texts, which the reference shows too.

/// The help text after the list of commands.
pub const AFTER_HELP: &str = "\
Examples:
  # Follow an upgrade until it is Ready (exit 0) or Stalled (exit 3)
  kubectl mcu status spring -w --timeout 6h

  # Why clusters failed or wait, which failed, and why one of them did
  kubectl mcu causes spring
  kubectl mcu clusters spring --phase Failed
  kubectl mcu why spring edge-17

  # Check a manifest before it is committed, and rehearse it
  kubectl mcu lint -f upgrade.yaml
  kubectl mcu rehearse -f upgrade.yaml

  # List the updates of one cluster, and what blocks them
  kubectl mcu updates --context edge-17 --include-not-recommended

  # Find a path from one release to another
  kubectl mcu graph path 4.18.20 4.20 --url https://updates.example.com/api/upgrades_info

Exit codes:
  0    the command succeeded; with status -w, the upgrade is Ready
  1    the hub or the cluster rejected the request, an object was not found, lint found violations, a check failed, no path exists, or the requested update is not allowed
  2    the command line is invalid
  3    status -w: the upgrade is Stalled and needs somebody to act; rehearse and plan: the upgrade would stop before it is complete
  4    status -w: the time limit of --timeout passed first
  130  the command was interrupted by Ctrl-C

`kubectl mcu <Tab>` needs an executable kubectl_complete-mcu in PATH: see `kubectl mcu completion --help`.";

pub(super) const STATUS_EXAMPLES: &str = "\
Examples:
  # List the upgrades of the namespace, then those of all namespaces
  kubectl mcu status
  kubectl mcu status -A -o wide

  # Show one upgrade: its counts, its slots, what it is waiting for, and what to do
  kubectl mcu status spring -n upgrades

  # In a pipeline: exit 0 on Ready, 3 on Stalled, 4 after two hours
  kubectl mcu status spring -w --timeout 2h";

pub(super) const CLUSTERS_EXAMPLES: &str = "\
Examples:
  kubectl mcu clusters spring
  kubectl mcu clusters spring --phase Failed --phase Blocked -o wide
  kubectl mcu clusters spring --phase Complete -o name

  # Those in Europe that wait for a reason, the longest first; then follow every change
  kubectl mcu clusters spring -l region=eu --reason ClusterUnavailable --sort-by .since
  kubectl mcu clusters spring -w";

pub(super) const CAUSES_EXAMPLES: &str = "\
Examples:
  kubectl mcu causes spring
  kubectl mcu causes spring -o custom-columns=REASON:.reason,CLUSTERS:.clusters";

pub(super) const CLUSTER_EXAMPLES: &str = "\
Examples:
  # In which upgrades is and was this cluster?
  kubectl mcu cluster edge-17 -A";

pub(super) const HISTORY_EXAMPLES: &str = "\
Examples:
  # How long did the upgrades take?
  kubectl mcu history -A

  # What happened on the clusters of one of them, in order
  kubectl mcu history spring";

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  kubectl mcu export spring -o csv > spring.csv
  kubectl mcu export spring -o json";

pub(super) const CREATE_EXAMPLES: &str = "\
Examples:
  # Print the manifest of an upgrade with canaries, to commit or to apply it
  kubectl mcu create spring --set prod --to 4.20.4 --channel stable-4.20 --canary canary=true --dry-run

  # Create it, paused
  kubectl mcu create spring --set prod --to 4.20.4 --channel stable-4.20 --max-concurrency 10% --paused";

pub(super) const CHECK_EXAMPLES: &str = "\
Examples:
  # Before the installation, and after it
  kubectl mcu check --pre
  kubectl mcu check -n upgrades -o json";

pub(super) const WHY_EXAMPLES: &str = "\
Examples:
  kubectl mcu why spring edge-17
  kubectl mcu why spring edge-17 -o json";

pub(super) const PAUSE_EXAMPLES: &str = "\
Examples:
  kubectl mcu pause spring";

pub(super) const RESUME_EXAMPLES: &str = "\
Examples:
  kubectl mcu resume spring";

pub(super) const RETRY_EXAMPLES: &str = "\
Examples:
  # List the failed clusters, fix them, then retry them
  kubectl mcu clusters spring --phase Failed --phase PreActionDegraded
  kubectl mcu retry spring

  # Retry one cluster, and those whose approval Job failed
  kubectl mcu retry spring edge-12
  kubectl mcu retry spring --reason OperatorsJobFailed --dry-run";

pub(super) const SKIP_EXAMPLES: &str = "\
Examples:
  # One cluster cannot be upgraded for now
  kubectl mcu skip spring edge-17 --reason 'no power until May'
  kubectl mcu unskip spring edge-17";

pub(super) const ABORT_EXAMPLES: &str = "\
Examples:
  kubectl mcu abort spring edge-9 --reason 'wrong site' --dry-run
  kubectl mcu abort spring edge-9 --reason 'wrong site'
  kubectl mcu unskip spring edge-9";

pub(super) const LINT_EXAMPLES: &str = "\
Examples:
  kubectl mcu lint -f upgrade.yaml
  kustomize build overlays/prod | kubectl mcu lint -f -
  kubectl mcu lint -f fleet/ --validate warn -o json";

pub(super) const UPDATES_EXAMPLES: &str = "\
Examples:
  # Read a cluster through its own kubeconfig, or its ClusterVersion from a file
  kubectl mcu updates --kubeconfig edge-17.kubeconfig
  oc get clusterversion version -o yaml | kubectl mcu updates -f - --include-not-recommended

  # Request an update; read the risks before you request one that is not recommended
  kubectl mcu updates --context edge-17 --to 4.18.20
  kubectl mcu updates --context edge-17 --to 4.18.21 --allow-not-recommended";

pub(super) const REHEARSE_EXAMPLES: &str = "\
Examples:
  # What would happen if this file were applied now, beside all other upgrades of the hub
  kubectl mcu rehearse -f upgrade.yaml

  # How an upgrade that is under way will go on, if 2 of 100 clusters fail
  kubectl mcu rehearse spring -n upgrades --failure-rate 2%

  # Save what was read, and rehearse again without a hub
  kubectl mcu rehearse spring -n upgrades --save hub-of-today
  kubectl mcu rehearse -f upgrade.yaml --from hub-of-today --durations hub-of-today/durations.yaml -o json";

pub(super) const PLAN_EXAMPLES: &str = "\
Examples:
  # The plan of an upgrade that is paused or under way: order, blockers, hours, and when it ends
  kubectl mcu plan spring -n upgrades

  # The plan of a file before it is applied; exit code 3 if it would stall
  kubectl mcu plan -f upgrade.yaml -o json";

pub(super) const WINDOWS_EXAMPLES: &str = "\
Examples:
  # When may the clusters of an upgrade start, in their own time zones and in UTC?
  kubectl mcu windows spring -n upgrades

  # The next ten openings for one cluster, by a file that is not applied yet
  kubectl mcu windows -f upgrade.yaml --managed-cluster edge-17 --next 10";

pub(super) const PREFLIGHT_EXAMPLES: &str = "\
Examples:
  # What clusters say to the update before they start, in groups by cause, with what to do
  kubectl mcu preflight spring -n upgrades";

pub(super) const ACCEPT_EXAMPLES: &str = "\
Examples:
  # Read what a risk is, and accept it for the upgrade
  kubectl mcu accept spring OVNIPsecConnectivity -n upgrades --reason 'no IPsec here, CHG0042'

  # Print the patch for a Git repository instead
  kubectl mcu accept spring OVNIPsecConnectivity -n upgrades --reason 'no IPsec here, CHG0042' --dry-run -o yaml";

pub(super) const ACK_EXAMPLES: &str = "\
Examples:
  # Read what a gate is, and acknowledge it on the clusters of the upgrade
  kubectl mcu ack spring ack-4.19-admissionregistration-v1beta1-api-removals-in-4.20 -n upgrades --reason 'scanned on 20 November'";

pub(super) const ORPHANS_EXAMPLES: &str = "\
Examples:
  # List what all deleted upgrades left over, then only what those of one namespace left over
  kubectl mcu orphans
  kubectl mcu orphans -n upgrades -o wide";

pub(super) const COMPLETION_EXAMPLES: &str = "\
Examples:
  # Complete kubectl-mcu itself
  source <(kubectl mcu completion bash)

  # Complete `kubectl mcu` through kubectl's own completion
  kubectl mcu completion kubectl > ~/.local/bin/kubectl_complete-mcu
  chmod +x ~/.local/bin/kubectl_complete-mcu";
