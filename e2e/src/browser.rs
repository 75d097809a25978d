//! A headless browser of one test, driven over WebDriver.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use repository::browser::BrowserPrograms;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thirtyfour::prelude::{ChromiumLikeCapabilities as _, DesiredCapabilities, WebDriver};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::WAIT_TIMEOUT;

/// Between two looks at the page.
const POLL: Duration = Duration::from_millis(20);

/// A browser with one window. Both it and its WebDriver server end with the value.
#[derive(Debug)]
pub struct Browser {
    /// The window.
    pub driver: WebDriver,
    _server: Child,
}

impl Browser {
    /// Starts a browser with a window of this size.
    ///
    /// # Errors
    /// The browser or its server does not start.
    pub async fn start(programs: &BrowserPrograms, (width, height): (u32, u32)) -> Result<Self> {
        // Its client wants one even for plain HTTP. An error only means that one is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut server = Command::new(&programs.driver)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("the WebDriver server does not start")?;
        let port = port(&mut server).await?;
        let mut wanted = DesiredCapabilities::chrome();
        wanted.set_binary(&programs.browser.to_string_lossy())?;
        // Root, as which CI may run, cannot use the sandbox; containers have a small /dev/shm.
        for flag in [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ] {
            wanted.add_arg(flag)?;
        }
        wanted.add_arg(&format!("--window-size={width},{height}"))?;
        let driver = WebDriver::new(format!("http://127.0.0.1:{port}"), wanted).await?;
        Ok(Self {
            driver,
            _server: server,
        })
    }

    /// What a script returns.
    ///
    /// # Errors
    /// The script throws, or its value has another shape.
    pub async fn run<T: DeserializeOwned>(&self, script: &str) -> Result<T> {
        let returned = self.driver.execute(script, Vec::<Value>::new()).await;
        let returned = returned.with_context(|| script.to_owned())?;
        Ok(serde_json::from_value(returned.json().clone())?)
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// It is not true in time.
    pub async fn wait(&self, expression: &str) -> Result<()> {
        let started = Instant::now();
        while !self.run::<bool>(&format!("return Boolean({expression})")).await? {
            if started.elapsed() > WAIT_TIMEOUT {
                let text: String = self.run("return document.body.innerText").await?;
                bail!("never true on the page: {expression}\n{text}");
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Saves a picture of the window.
    ///
    /// # Errors
    /// The browser or the file system fails.
    pub async fn screenshot(&self, path: &Path) -> Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(path, self.driver.screenshot_as_png().await?)?;
        Ok(())
    }

    /// Ends the browser.
    ///
    /// # Errors
    /// The browser does not answer.
    pub async fn quit(self) -> Result<()> {
        Ok(self.driver.quit().await?)
    }
}

/// The port that the server says it listens on.
async fn port(server: &mut Child) -> Result<u16> {
    let output = server.stdout.take().context("the server has no output")?;
    let mut lines = BufReader::new(output).lines();
    while let Some(line) = lines.next_line().await? {
        let number = line
            .rsplit_once("successfully on port ")
            .and_then(|(_, rest)| rest.trim_end_matches('.').parse().ok());
        if let Some(port) = number {
            return Ok(port);
        }
    }
    bail!("the WebDriver server ended before it listened")
}
