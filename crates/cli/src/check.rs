//! `check`: whether a hub and its controller are set up to upgrade clusters. [`facts`] says what is read of the hub; this module
//! judges it, without any I/O.

mod agents;
mod before;
mod definitions;
pub mod facts;
mod installed;

use serde::Serialize;

pub use self::before::judge as before;
use self::facts::Unread;
pub use self::installed::{judge as installed, version_of, version_of_leader};

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Upgrades work, but somebody should look at it; or it cannot be read.
    Warning,
    /// Upgrades do not work, or are not safe.
    Failed,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What it is about.
    pub category: &'static str,
    /// How it ended.
    pub level: Level,
    /// What was found.
    pub message: String,
    /// What to do; empty if nothing.
    pub remedy: String,
}

/// Collects the checks of one category after another.
#[derive(Debug, Default)]
struct Checks {
    category: &'static str,
    all: Vec<Check>,
}

impl Checks {
    fn begin(&mut self, category: &'static str) {
        self.category = category;
    }

    fn add(&mut self, level: Level, message: impl Into<String>, remedy: impl Into<String>) {
        self.all.push(Check {
            category: self.category,
            level,
            message: message.into(),
            remedy: remedy.into(),
        });
    }

    fn ok(&mut self, message: impl Into<String>) {
        self.add(Level::Ok, message, "");
    }

    /// A fact that could not be read.
    fn unread(&mut self, what: &str, unread: &Unread) {
        self.add(
            Level::Warning,
            format!("{what} cannot be read: {unread}"),
            unread.remedy.as_str(),
        );
    }
}

/// Names of clusters in a message.
const MAX_NAMES: usize = 5;

/// The first names, and how many follow.
fn some(names: &[String]) -> String {
    let shown = names[..names.len().min(MAX_NAMES)].join(", ");
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The worst of these checks; `Ok` if there are none.
#[must_use]
pub fn worst(checks: &[Check]) -> Level {
    checks.iter().map(|check| check.level).max().unwrap_or(Level::Ok)
}

/// Major and minor version of a text such as `v1.31.2+abc`.
fn minor_of(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim_start_matches('v').split('.');
    let major = numbers.next()?.parse().ok()?;
    let minor: String = numbers.next()?.chars().take_while(char::is_ascii_digit).collect();
    Some((major, minor.parse().ok()?))
}

/// How far the controller is from the plugin.
#[must_use]
pub fn skew(plugin: &str, controller: &str) -> Option<String> {
    let (ours, theirs) = (minor_of(plugin)?, minor_of(controller)?);
    let distance = if ours.0 == theirs.0 {
        ours.1.abs_diff(theirs.1)
    } else {
        u32::MAX
    };
    (distance > 1).then(|| {
        format!("the plugin has version {plugin} and the controller {controller}; they should be at most one minor version apart")
    })
}

#[cfg(test)]
mod tests;
