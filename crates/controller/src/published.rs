//! A value that tasks can wait for to change.
//!
//! `tokio::sync::watch` does the same but wakes the waiting tasks in random order. Here they wake in the order in which they
//! began to wait, so that a simulation of the controller can be repeated.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Publishes a value. When it is dropped, the last value stays readable, and waiting tasks get [`NeverChanges`].
#[derive(Debug)]
pub struct Published<T> {
    shared: Arc<PublishedState<T>>,
}

/// Reads a published value and waits for the next one. A clone has seen what its original has seen.
#[derive(Debug)]
pub struct Subscription<T> {
    shared: Arc<PublishedState<T>>,
    /// Version of the value that was seen last.
    seen: u64,
}

/// The value will not change any more, because nobody can publish another one.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value will not change any more")]
pub struct NeverChanges;

#[derive(Debug)]
struct PublishedState<T> {
    current: Mutex<VersionedValue<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct VersionedValue<T> {
    value: T,
    /// Number of times that the value was replaced.
    version: u64,
    closed: bool,
}

impl<T> PublishedState<T> {
    fn current(&self) -> MutexGuard<'_, VersionedValue<T>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Published<T> {
    /// Publishes a first value.
    pub fn new(value: T) -> Self {
        let current = VersionedValue {
            value,
            version: 0,
            closed: false,
        };
        Self {
            shared: Arc::new(PublishedState {
                current: Mutex::new(current),
                changed: Notify::new(),
            }),
        }
    }

    /// Publishes another value, even if it equals the present one.
    pub fn replace(&self, value: T) {
        self.modify(|current| {
            *current = value;
            true
        });
    }

    /// Changes the value. `change` returns true if it did; only then do the subscriptions learn of it. Returns the same.
    pub fn modify(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let mut current = self.shared.current();
        let changed = change(&mut current.value);
        current.version += u64::from(changed);
        drop(current);
        if changed {
            self.shared.changed.notify_waiters();
        }
        changed
    }

    /// A subscription that has seen the present value.
    #[must_use]
    pub fn subscribe(&self) -> Subscription<T> {
        Subscription {
            shared: Arc::clone(&self.shared),
            seen: self.shared.current().version,
        }
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        self.shared.current().closed = true;
        self.shared.changed.notify_waiters();
    }
}

impl<T> Clone for Subscription<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            seen: self.seen,
        }
    }
}

impl<T: Clone> Subscription<T> {
    /// The present value. Does not count as seen.
    #[must_use]
    pub fn get(&self) -> T {
        self.shared.current().value.clone()
    }

    /// The present value, which now counts as seen.
    pub fn see(&mut self) -> T {
        let current = self.shared.current();
        self.seen = current.version;
        current.value.clone()
    }

    /// Waits until there is a value that was not seen, which then counts as seen. May be cancelled without losing a change.
    ///
    /// # Errors
    /// The publisher is gone, so no other value will come.
    pub async fn changed(&mut self) -> Result<(), NeverChanges> {
        loop {
            // Created before the check, so that no change is missed between the two.
            let changed = self.shared.changed.notified();
            {
                let current = self.shared.current();
                if current.version != self.seen {
                    self.seen = current.version;
                    return Ok(());
                }
                if current.closed {
                    return Err(NeverChanges);
                }
            }
            changed.await;
        }
    }

    /// Waits until the value satisfies `accepts`, and returns it. It then counts as seen.
    ///
    /// # Errors
    /// The publisher is gone, and its last value does not satisfy `accepts`.
    pub async fn wait_for(&mut self, mut accepts: impl FnMut(&T) -> bool) -> Result<T, NeverChanges> {
        loop {
            let value = self.see();
            if accepts(&value) {
                return Ok(value);
            }
            self.changed().await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_tasks_wake_in_the_order_in_which_they_began_to_wait() {
        let published = Published::new(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let (mut subscription, order) = (published.subscribe(), Arc::clone(&order));
            tasks.spawn(async move {
                subscription.changed().await.unwrap();
                order.lock().unwrap().push(number);
            });
        }
        tokio::task::yield_now().await;
        published.replace(1);
        tasks.join_all().await;
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_change_between_two_waits_is_not_missed_and_several_count_as_one() {
        let published = Published::new(0);
        let mut subscription = published.subscribe();
        published.replace(1);
        published.replace(2);
        assert_eq!(subscription.get(), 2);
        assert_eq!(subscription.changed().await, Ok(()));
        let (mut other, mut third) = (subscription.clone(), subscription.clone());
        assert!(!published.modify(|_| false), "nothing to learn of");
        published.replace(3);
        assert_eq!(other.wait_for(|value| *value == 3).await, Ok(3));
        assert_eq!(third.see(), 3);
        drop(published);
        assert_eq!(third.changed().await, Err(NeverChanges));
        assert_eq!(
            subscription.changed().await,
            Ok(()),
            "the last change was not seen"
        );
        assert_eq!(subscription.changed().await, Err(NeverChanges));
        assert_eq!(other.wait_for(|value| *value == 4).await, Err(NeverChanges));
        assert_eq!(other.get(), 3);
    }
}
