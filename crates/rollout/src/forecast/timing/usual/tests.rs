use super::*;
use crate::forecast::VersionChange;

#[test]
fn usual_times_have_the_median_and_the_percentile_that_are_published() {
    for (step, class, published) in [
        (Step::Platform, ClusterClass::SingleNode, (65, 90)),
        (Step::Platform, ClusterClass::MultiNode, (75, 130)),
        (Step::Platform, ClusterClass::Unknown, (70, 130)),
        (Step::Operators, ClusterClass::Unknown, (10, 12)),
        (Step::PreAction, ClusterClass::Unknown, (5, 6)),
        (Step::PostAction, ClusterClass::Unknown, (5, 6)),
    ] {
        let samples = usual((step, VersionChange::Patch, class));
        let minutes = |share| samples.quantile(share).num_minutes();
        assert_eq!((minutes(0.5), minutes(0.9)), published, "{step:?}");
        assert!(samples.sorted().is_sorted());
    }
}
