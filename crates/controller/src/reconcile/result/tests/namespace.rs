//! Results that show that a cluster has no namespace any more.

use super::*;
use crate::fixture::finished;

/// When it has one again it begins anew, and its slot was given to another cluster.
#[test]
fn nothing_is_kept_of_the_works_of_a_cluster_whose_namespace_is_gone() {
    let known = |is_gone: bool, outcome: &WriteResult| {
        let context = writing();
        with_entry(&context, |entry| note(entry, "c1", record(Phase::Operators)));
        context.with(|state| {
            let now = context.now();
            let work = finished("c1", "u1", 5);
            state.update_works(|index| index.work(&Change::Applied(work.clone()), now));
            if is_gone {
                state.update_works(|index| index.work(&Change::Deleted(work), now));
            }
        });
        answered(&context, create(&context), outcome);
        context.with(|state| {
            let view = state.index.work_of("c1", Step::Operators);
            view.map(|view| (view.work.vanished, view.unconfirmed))
        })
    };
    let terminating = WriteResult::NamespaceTerminating;
    let missing = WriteResult::NamespaceMissing;
    for outcome in [&terminating, &missing] {
        assert_eq!(known(true, outcome), None);
        assert_eq!(known(false, outcome), Some((false, true)), "it is read first");
    }
    let refused = WriteResult::Failed(WriteError::new(WriteErrorKind::Broken, "no"));
    assert_eq!(known(true, &refused), Some((true, false)));
    assert_eq!(known(false, &refused), Some((false, false)));
}
