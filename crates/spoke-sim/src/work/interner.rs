//! Shares texts and configurations that are the same in thousands of works.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use super::config::Configs;

/// The texts and parsed configurations in use, each stored once. An entry is dropped with its last user.
#[derive(Debug, Default)]
pub struct Interner {
    texts: HashSet<Arc<str>>,
    configs: HashMap<Arc<str>, Weak<Configs>>,
    since_sweep: usize,
}

impl Interner {
    /// The shared copy of `text`.
    pub fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(kept) = self.texts.get(text) {
            return Arc::clone(kept);
        }
        self.sweep();
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    /// The shared parsed copy of `spec.manifestConfigs`.
    ///
    /// # Errors
    /// The text is not a list of manifest configurations.
    pub fn configs(&mut self, text: &str) -> Result<Arc<Configs>, serde_json::Error> {
        if let Some(configs) = self.configs.get(text).and_then(Weak::upgrade) {
            return Ok(configs);
        }
        self.sweep();
        let configs = Arc::new(Configs::parse(text)?);
        self.configs.insert(text.into(), Arc::downgrade(&configs));
        Ok(configs)
    }

    /// Drops unused entries from time to time.
    fn sweep(&mut self) {
        self.since_sweep += 1;
        if self.since_sweep > 1_000 + self.texts.len() + self.configs.len() {
            // The only remaining owner is this set.
            self.texts.retain(|text| Arc::strong_count(text) > 1);
            self.configs.retain(|_, configs| configs.strong_count() > 0);
            self.since_sweep = 0;
        }
    }
}
