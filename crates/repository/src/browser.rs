//! The browser of tests: Chromium with its `WebDriver` server, from `PATH`.
//!
//! Debian has them as the packages `chromium` and `chromium-driver`. Tests that need them are skipped where they are missing. To be sure
//! that they run, set `MCU_BROWSER` to `required`: then a missing browser is an error.

use std::path::PathBuf;

/// The variable that says whether there must be a browser.
const VARIABLE: &str = "MCU_BROWSER";
/// Its value if there must be one.
const REQUIRED: &str = "required";
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

/// The browser of this machine. `None`, and a line on standard error that says so, if there is none and nobody requires one.
///
/// # Panics
/// There is no browser, and `MCU_BROWSER` requires one.
#[must_use]
pub fn find() -> Option<BrowserPrograms> {
    let is_required = std::env::var_os(VARIABLE).is_some_and(|value| value == REQUIRED);
    found(search(&path()), is_required)
}

fn found(programs: Option<BrowserPrograms>, is_required: bool) -> Option<BrowserPrograms> {
    if programs.is_none() {
        let why = missing();
        assert!(!is_required, "{why} ({VARIABLE} is {REQUIRED})");
        eprintln!("skipped: {why}");
    }
    programs
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
        assert_eq!(search(&path()).is_none(), summary().contains("NOT"));
    }

    #[test]
    fn a_missing_browser_skips_tests() {
        assert_eq!(found(None, false), None);
    }

    #[test]
    #[should_panic(expected = "install chromium and chromium-driver (MCU_BROWSER is required)")]
    fn a_missing_browser_that_is_required_fails_tests() {
        let _ = found(None, true);
    }
}
