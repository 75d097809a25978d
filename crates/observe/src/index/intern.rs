//! Shares equal strings. Label keys, revisions and owners are repeated ten thousand times.

use std::sync::Arc;

use ahash::AHashSet;

/// Longest text that is shared, in bytes. Others are hardly repeated, and clusters could fill the pool with them.
const MAX_SHARED: usize = 512;

/// A pool of shared strings. [`Pool::sweep`] removes unused ones.
#[derive(Debug, Default)]
pub struct Pool {
    strings: AHashSet<Arc<str>>,
    swept_at: usize,
}

impl Pool {
    /// The shared copy of a string.
    pub fn share(&mut self, text: &str) -> Arc<str> {
        if text.len() > MAX_SHARED {
            return Arc::from(text);
        }
        if let Some(known) = self.strings.get(text) {
            return Arc::clone(known);
        }
        self.sweep();
        let shared: Arc<str> = Arc::from(text);
        self.strings.insert(Arc::clone(&shared));
        shared
    }

    /// Removes strings that nobody else holds, once the pool has doubled since the last time.
    fn sweep(&mut self) {
        if self.strings.len() > 1024 && self.strings.len() > 2 * self.swept_at {
            self.strings.retain(|text| Arc::strong_count(text) > 1);
            self.swept_at = self.strings.len();
        }
    }
}

#[cfg(test)]
mod tests;
