//! The browser of tests: Chromium with its `WebDriver` server, from `PATH`.
//!
//! Debian has them as the packages `chromium` and `chromium-driver`. Tests that need them are skipped where they are missing.

use std::path::PathBuf;

/// Names under which the browser is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// The `WebDriver` server of the same release.
const DRIVER: &str = "chromedriver";

/// A browser and its `WebDriver` server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserPrograms {
    /// The browser.
    pub browser: PathBuf,
    /// The `WebDriver` server.
    pub driver: PathBuf,
}

/// The browser of this machine. `None`, and a line on standard error that says so, if there is none.
#[must_use]
pub fn find() -> Option<BrowserPrograms> {
    let found = search(&path());
    if found.is_none() {
        eprintln!("skipped: {}", missing());
    }
    found
}

/// One line for the end of a run of tests: whether the tests that need a browser ran.
#[must_use]
pub fn summary() -> String {
    search(&path()).map_or_else(
        || format!("the tests in a browser did NOT run: {}", missing()),
        |found| format!("the tests in a browser ran, with {}", found.browser.display()),
    )
}

fn missing() -> String {
    format!(
        "PATH has no {} with {DRIVER}; on Debian, install chromium and chromium-driver",
        BROWSERS.join(", ")
    )
}

fn path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).collect()
}

fn search(path: &[PathBuf]) -> Option<BrowserPrograms> {
    let program = |name: &str| path.iter().map(|dir| dir.join(name)).find(|file| file.is_file());
    Some(BrowserPrograms {
        browser: BROWSERS.into_iter().find_map(program)?,
        driver: program(DRIVER)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_without_its_driver_is_none() {
        let dir = std::env::temp_dir().join(format!("mcu-browser-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = [dir.clone()];
        std::fs::write(dir.join("chromium"), "").unwrap();
        assert_eq!(search(&path), None);
        std::fs::write(dir.join(DRIVER), "").unwrap();
        assert_eq!(search(&path).unwrap().browser, dir.join("chromium"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_summary_says_whether_there_is_a_browser() {
        assert_eq!(find().is_none(), summary().contains("NOT"));
    }
}
