//! Panics of the tasks of a run. Most tasks are detached, so nobody gets to know that one of them has panicked: a request whose
//! task is gone looks like one whose answer was lost.

use std::cell::RefCell;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// What the tasks of the run on this thread have panicked with. A run has one thread.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// What somebody panicked with, and where.
fn describe(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let place = panic
        .location()
        .map(|at| format!(" at {}:{}", at.file(), at.line()));
    format!("{}{}", text.unwrap_or("no text"), place.unwrap_or_default())
}

/// Notes from now on what panics on this thread, and forgets what was noted before.
pub(crate) fn note() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            // While a thread ends, there is nobody who would read it.
            let _ = PANICS.try_with(|panics| panics.borrow_mut().push(describe(panic)));
            before(panic);
        }));
    });
    drop(take());
}

/// What has panicked on this thread since the last time.
#[must_use]
pub(crate) fn take() -> Vec<String> {
    PANICS.with(RefCell::take)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_a_task_that_nobody_waits_for_is_noted() {
        note();
        drop(tokio::spawn(async {
            assert!(std::hint::black_box(false), "a task");
        }));
        tokio::task::yield_now().await;
        let noted = take();
        assert_eq!(noted.len(), 1);
        assert!(noted[0].starts_with("a task at "), "{}", noted[0]);
        assert!(take().is_empty());
    }

    #[test]
    fn a_panic_on_another_thread_is_not_of_this_run() {
        note();
        let other = std::thread::spawn(|| assert!(std::hint::black_box(false), "elsewhere"));
        assert!(other.join().is_err());
        assert!(take().is_empty());
    }
}
