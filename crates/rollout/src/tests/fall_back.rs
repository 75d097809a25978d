//! Clusters that were queued again and left the selection (`docs/design/rules.md#leavers`).

use super::{planned, record_of, stand, writes};
use crate::model::{Phase, Reason, Step};
use crate::testing::{WorkBuilder, fleet, policy, record, work};

/// Its operators work was in the way of the next attempt and is gone. What could only follow proves that it had succeeded.
#[test]
fn a_queued_leaver_whose_operators_had_ended_falls_back_to_complete() {
    let r2 = policy().edited("r2", &[Step::Platform]);
    let left = || {
        fleet()
            .cluster("a")
            .left(0)
            .record(record(Phase::Pending).revision("r2"))
    };
    let platform = || left().work(Step::Platform, work(0).succeeded());
    let soaked = |seconds| left().work(Step::Platform, work(0).succeeded().soak(seconds));
    let ill = work(0).succeeded().soak(5).unhealthy();
    let ran = |work: WorkBuilder| left().work(Step::PostAction, work);
    for (fleet, is_complete) in [
        (soaked(5), true),
        (soaked(0), false),
        (soaked(1000), false),
        (left().work(Step::Platform, ill), false),
        (left().work(Step::Platform, work(0).running().soak(5)), false),
        (platform(), false),
        (platform().work(Step::Operators, work(1).succeeded()), true),
        (ran(work(9).succeeded()), true),
        (ran(work(9)), false),
        (ran(work(9).failed()), false),
    ] {
        let plan = planned(100, r2.clone().operators().post_action(), fleet);
        let end = if is_complete {
            (Phase::Complete, Reason::None)
        } else {
            (Phase::Failed, Reason::LeftSelection)
        };
        assert_eq!(stand(&plan, "a"), end);
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
        assert_eq!(writes(&plan), [""; 0]);
    }
}
