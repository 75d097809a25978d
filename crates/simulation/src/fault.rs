//! The faults of a run: which there are, and which of their occasions one of them strikes.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal;)+) => {
        /// Something that a run does to the controller.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Fault { $($(#[doc = $doc])+ #[serde(rename = $text)] $name),+ }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its name in outputs and stories.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// What it does.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii()),+ }
            }
        }
    };
}

faults! {
    /// The request never arrives.
    Lost = "lost";
    /// The request is carried out, and its answer is lost.
    AnswerLost = "answer-lost";
    /// The request is carried out long after its sender gave up.
    Late = "late";
    /// The answer takes up to 40 s.
    Slow = "slow";
    /// A request of a replica is neither carried out nor answered.
    Hang = "hang";
    /// The same for the Lease alone.
    LeaseHang = "lease-hang";
    /// 429 with Retry-After.
    TooManyRequests = "429";
    /// 500.
    InternalError = "500";
    /// 503.
    Unavailable = "503";
    /// 409 for a change or deletion.
    Conflict = "409";
    /// 422 for a work, a status, a finalizer or the Lease.
    Invalid = "422";
    /// 422 for a report that is created or changed, because of one of its rows, as long as it is in that phase, for up to two minutes or for eight.
    InvalidRow = "422-row";
    /// A watch ends without a word.
    WatchCut = "watch-cut";
    /// A watch delivers nothing more and does not end.
    WatchSilent = "watch-silent";
    /// A watch delivers an event, and those behind it, up to 30 s later.
    WatchLag = "watch-lag";
    /// The history of the hub is forgotten.
    Compaction = "compaction";
    /// A replica is killed.
    Kill = "kill";
    /// A replica is killed when the hub has carried out a write of it, before it hears of that.
    KillAtCommit = "kill-at-commit";
    /// All replicas are killed.
    KillAll = "kill-all";
    /// A replica cannot reach the hub for up to a minute.
    Partition = "partition";
    /// Writes of a replica are answered with 403 for up to a minute, or those of works for eight minutes.
    Forbidden = "403";
    /// The wall clock of a replica jumps.
    ClockJump = "clock-jump";
    /// The upgrade is paused for a while.
    Pause = "pause";
    /// maxConcurrency is changed.
    Resize = "resize";
    /// Another version is asked for.
    Retarget = "retarget";
    /// Failed clusters are retried.
    Retry = "retry";
    /// A cluster is skipped or aborted, and taken up again later.
    LeaveOut = "leave-out";
    /// The spec is invalid for a while.
    Misspell = "misspell";
    /// The upgrade is deleted, and created anew later.
    Remove = "remove";
    /// A work is deleted by hand.
    DeleteWork = "delete-work";
    /// A row is edited by hand.
    EditRow = "edit-row";
    /// A report is deleted by hand.
    DeleteReport = "delete-report";
    /// The agent of a cluster changes annotations or labels of a work.
    Tamper = "tamper";
    /// The agent of a cluster writes nonsense into the status of a work.
    Nonsense = "nonsense";
    /// A cluster changes its own labels for a while.
    Relabel = "relabel";
    /// A work of somebody else has the name of one of ours for a while.
    Squat = "squat";
    /// Somebody writes a work with the upgrade's UID for a cluster that is not selected.
    ForgeWork = "forge-work";
    /// Somebody writes a report of the upgrade in another namespace.
    ForgeReport = "forge-report";
    /// Somebody writes a decision that is not the placement controller's.
    ForgeDecision = "forge-decision";
    /// A ManagedCluster and its namespace are deleted, and come back later.
    Detach = "detach";
    /// The ManagedCluster or the namespace of a cluster is deleted while the other one stays, and comes back later.
    DetachHalf = "detach-half";
    /// A cluster is not available for a while.
    Away = "away";
    /// A cluster is not among the decisions of its Placement for a moment.
    Undecide = "undecide";
    /// The set of the clusters is not bound in the namespace of the upgrades for a while.
    Unbind = "unbind";
    /// The hub is restored from a backup: new UIDs, no works, no statuses.
    Restore = "restore";
    /// The cluster or its agent has one of the faults of simulated clusters for a while.
    Agent = "agent";
    /// The cluster or its agent has one of the rarer faults of simulated clusters for a while: it lies, flaps, refuses or is held up.
    AgentOdd = "agent-odd";
    /// A cluster changes its own labels, and keeps them so as long as faults happen.
    Leave = "leave";
    /// Writes of a replica are answered with 429 for up to a minute.
    Overload = "overload";
    /// A tenant of another namespace creates an upgrade whose action is nested as deeply as one JSON document may be.
    DeepUpgrade = "deep-upgrade";
    /// The author of an upgrade names the hub itself in its selector for a while.
    NameHub = "name-hub";
    /// The second upgrade is deleted, and nobody creates it anew.
    Withdraw = "withdraw";
    /// The storage of the hub goes back by up to half a minute while everything runs: revisions, too.
    Rewind = "rewind";
    /// The request is carried out 56 to 118 s after it was sent.
    VeryLate = "very-late";
    /// 400.
    BadRequest = "400";
    /// 410 for a page of a list that is not its first.
    PageExpired = "410";
    /// A watch delivers nothing but bookmarks of one revision any more, and does not end.
    WatchStuck = "watch-stuck";
    /// A replica is killed at any moment, and started again up to 20 s later.
    Crash = "crash";
    /// The wall clock of a replica jumps by hours.
    ClockFar = "clock-far";
    /// The hub is restored from a backup that is up to minutes old: earlier specs and rows, beside clusters that went on.
    RestoreOld = "restore-old";
    /// The agent of a cluster reports the end of an update that is still under way.
    FalseEnd = "false-end";
    /// A cluster claims a version that it does not run for a while.
    FalseClaim = "false-claim";
    /// The agent of a cluster keeps a work from going for a while.
    HoldWork = "hold-work";
    /// Operators or an action are added to the spec, replaced or taken away.
    Reshape = "reshape";
    /// 504 for a write that is carried out all the same, before or after the answer.
    TimedOut = "504";
    /// A cluster does not offer the update any more, or offers it with another risk, for a while.
    Withhold = "withhold";
    /// What a cluster says of the update changes every second for a while.
    Flap = "flap";
    /// A worker pool of a cluster is paused or degraded, or gets another configuration.
    Pool = "pool";
    /// A probe is deleted by hand.
    DeleteProbe = "delete-probe";
    /// A work of somebody else has the name of a probe, and asks the same as one of the upgrade, for a while.
    ForgeProbe = "forge-probe";
    /// The answers of a cluster to a probe are too long, of other types or of other forms.
    ProbeNonsense = "probe-nonsense";
    /// The answers of a cluster to a probe arrive up to 50 s late.
    LateAnswer = "late-answer";
    /// The spec gets other maintenance windows, an exclusion or none for a while.
    Rewindow = "rewindow";
    /// An approval is deleted.
    Disapprove = "disapprove";
    /// Somebody approves a plan that is none, or an earlier one.
    FalseApproval = "false-approval";
}

impl Fault {
    /// Whether it keeps the controller itself from reading, writing or leading, or from what it knew. The others are the doing
    /// of people and clusters.
    #[must_use]
    pub const fn disturbs(self) -> bool {
        match self {
            Self::Lost
            | Self::AnswerLost
            | Self::Late
            | Self::Slow
            | Self::Hang
            | Self::LeaseHang
            | Self::TooManyRequests
            | Self::InternalError
            | Self::Unavailable
            | Self::Conflict
            | Self::Invalid
            | Self::InvalidRow
            | Self::WatchCut
            | Self::WatchSilent
            | Self::WatchLag
            | Self::Compaction
            | Self::Kill
            | Self::KillAtCommit
            | Self::KillAll
            | Self::Partition
            | Self::Forbidden
            | Self::ClockJump
            | Self::Overload
            | Self::Restore
            | Self::Rewind
            | Self::VeryLate
            | Self::BadRequest
            | Self::PageExpired
            | Self::WatchStuck
            | Self::Crash
            | Self::ClockFar
            | Self::RestoreOld
            | Self::TimedOut => true,
            Self::Pause
            | Self::Resize
            | Self::Retarget
            | Self::Retry
            | Self::LeaveOut
            | Self::Misspell
            | Self::Remove
            | Self::DeleteWork
            | Self::EditRow
            | Self::DeleteReport
            | Self::Tamper
            | Self::Nonsense
            | Self::Relabel
            | Self::Squat
            | Self::ForgeWork
            | Self::ForgeReport
            | Self::ForgeDecision
            | Self::Detach
            | Self::DetachHalf
            | Self::Away
            | Self::Undecide
            | Self::Unbind
            | Self::Agent
            | Self::AgentOdd
            | Self::Leave
            | Self::DeepUpgrade
            | Self::NameHub
            | Self::Withdraw
            | Self::FalseEnd
            | Self::FalseClaim
            | Self::HoldWork
            | Self::Reshape
            | Self::Withhold
            | Self::Flap
            | Self::Pool
            | Self::DeleteProbe
            | Self::ForgeProbe
            | Self::ProbeNonsense
            | Self::LateAnswer
            | Self::Rewindow
            | Self::Disapprove
            | Self::FalseApproval => false,
        }
    }

    /// Whether it strikes only windows and approvals.
    #[must_use]
    pub const fn is_of_control(self) -> bool {
        matches!(self, Self::Rewindow | Self::Disapprove | Self::FalseApproval)
    }

    /// Whether it strikes only what clusters are asked.
    #[must_use]
    pub const fn is_of_probes(self) -> bool {
        matches!(
            self,
            Self::Withhold
                | Self::Flap
                | Self::Pool
                | Self::DeleteProbe
                | Self::ForgeProbe
                | Self::ProbeNonsense
                | Self::LateAnswer
        )
    }
}

/// One fault of a run: which, on whose what, and at which of its occasions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Occasion {
    /// The fault.
    pub fault: Fault,
    /// What it struck, for example `r0 POST /apis/…`.
    pub name: String,
    /// How many such things there were, this one included.
    pub count: u64,
}

/// Which faults happen.
#[derive(Clone, Debug)]
pub enum Faults {
    /// As often as the options say.
    ByRate,
    /// Only these.
    Only(BTreeSet<Occasion>),
}
