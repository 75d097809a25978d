//! The texts that clusters show of the same thing. One cluster may show another text than all others, so the most frequent one counts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The texts of a risk, of a gate, or of another cause, while they are collected.
#[derive(Debug, Default)]
pub struct Texts(BTreeMap<String, (usize, String)>);

/// A text, and the clusters that show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShownText {
    /// The text.
    pub text: String,
    /// Number of clusters that show it.
    pub clusters: usize,
    /// The first of them that was added.
    pub example: String,
}

impl Texts {
    /// Adds the text of a cluster.
    pub fn add(&mut self, cluster: &str, text: String) {
        let (clusters, _) = self.0.entry(text).or_insert_with(|| (0, cluster.to_owned()));
        *clusters += 1;
    }

    /// The texts, that of the most clusters first.
    #[must_use]
    pub fn by_frequency(self) -> Vec<ShownText> {
        let texts = self.0.into_iter().map(|(text, (clusters, example))| ShownText {
            text,
            clusters,
            example,
        });
        let mut texts: Vec<ShownText> = texts.collect();
        texts.sort_by(|a, b| (Reverse(a.clusters), &a.example).cmp(&(Reverse(b.clusters), &b.example)));
        texts
    }
}
