//! A headless browser of one test, driven over `WebDriver` (<https://www.w3.org/TR/webdriver2/>).
//!
//! The six commands that the tests need are requests of a few lines. The client crates would bring a licence that we do not take, or
//! change how `serde_json` orders keys in all tests.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use repository::browser::BrowserPrograms;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::ChildStdout;

use crate::WAIT_TIMEOUT;

/// Between two looks at the page.
const POLL: Duration = Duration::from_millis(20);
/// How often the `WebDriver` server is started until it listens.
const ATTEMPTS: u32 = 5;

/// Runs a command until the input closes, and then kills the whole process group.
const GUARDIAN: &str = r#""$@" </dev/null & exec >/dev/null; read -r _; kill -s KILL 0"#;

/// Keys as `WebDriver` writes them.
pub mod key {
    /// Left arrow.
    pub const LEFT: &str = "\u{e012}";
    /// Right arrow.
    pub const RIGHT: &str = "\u{e014}";
    /// Enter.
    pub const ENTER: &str = "\u{e007}";
    /// Escape.
    pub const ESCAPE: &str = "\u{e00c}";
}

/// A browser with one window. Both it and its `WebDriver` server end with the value, also if the test panics, and with the
/// process if that is killed.
#[derive(Debug)]
pub struct Browser {
    client: reqwest::Client,
    /// The address of the session at the server.
    session: String,
    _server: DriverServer,
}

impl Browser {
    /// Starts a browser with a window of this size.
    ///
    /// # Errors
    /// The browser or its server does not start.
    pub async fn start(programs: &BrowserPrograms, (width, height): (u32, u32)) -> Result<Self> {
        // Its client wants one even for plain HTTP. An error only means that one is installed already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (server, port) = DriverServer::listening(&programs.driver).await?;
        let options = json!({
            "binary": programs.browser.to_string_lossy(),
            // Root, as which CI may run, cannot use the sandbox; containers have a small /dev/shm.
            "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                format!("--window-size={width},{height}"),
            ],
        });
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
        let client = reqwest::Client::new();
        let sessions = format!("http://127.0.0.1:{port}/session");
        let answer = value(client.post(&sessions).json(&wanted)).await?;
        let id = answer["sessionId"].as_str().context("a session without an ID")?;
        Ok(Self {
            session: format!("{sessions}/{id}"),
            client,
            _server: server,
        })
    }

    async fn post(&self, command: &str, body: Value) -> Result<Value> {
        value(
            self.client
                .post(format!("{}/{command}", self.session))
                .json(&body),
        )
        .await
    }

    /// Opens an address, and waits until it is loaded.
    ///
    /// # Errors
    /// The address cannot be opened.
    pub async fn open(&self, address: &str) -> Result<()> {
        self.post("url", json!({"url": address})).await.map(drop)
    }

    /// Loads the page again.
    ///
    /// # Errors
    /// It cannot be loaded.
    pub async fn reload(&self) -> Result<()> {
        self.post("refresh", json!({})).await.map(drop)
    }

    /// Presses and releases a key where the focus is; see [`key`].
    ///
    /// # Errors
    /// The browser refuses.
    pub async fn press(&self, key: &str) -> Result<()> {
        let strokes = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": strokes});
        self.post("actions", json!({"actions": [keyboard]}))
            .await
            .map(drop)
    }

    /// Clicks, as a person would, on the first element that a CSS selector finds.
    ///
    /// # Errors
    /// There is none, or something is in front of it.
    pub async fn click(&self, selector: &str) -> Result<()> {
        let found = self
            .post("element", json!({"using": "css selector", "value": selector}))
            .await?;
        let id = found
            .as_object()
            .and_then(|element| element.values().next()?.as_str());
        let id = id.with_context(|| format!("{selector} is no element"))?;
        self.post(&format!("element/{id}/click"), json!({}))
            .await
            .map(drop)
    }

    /// What a script returns.
    ///
    /// # Errors
    /// The script throws, or its value has another shape.
    pub async fn run<T: DeserializeOwned>(&self, script: &str) -> Result<T> {
        let returned = self
            .post("execute/sync", json!({"script": script, "args": []}))
            .await;
        Ok(serde_json::from_value(
            returned.with_context(|| script.to_owned())?,
        )?)
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
        let picture = value(self.client.get(format!("{}/screenshot", self.session))).await?;
        let picture = picture.as_str().context("a picture that is no text")?;
        std::fs::write(path, BASE64.decode(picture)?)?;
        Ok(())
    }

    /// Ends the browser.
    ///
    /// # Errors
    /// The browser does not answer.
    pub async fn quit(self) -> Result<()> {
        value(self.client.delete(&self.session)).await.map(drop)
    }
}

/// The value of an answer.
async fn value(request: reqwest::RequestBuilder) -> Result<Value> {
    let response = request.send().await?;
    let status = response.status();
    let mut answer: Value = response.json().await?;
    let value = answer["value"].take();
    if !status.is_success() {
        bail!("WebDriver: {status}: {}", value["message"]);
    }
    Ok(value)
}

/// A `WebDriver` server with the browser that it starts in its own process group. Only a request ends that browser in an orderly
/// way, and a test that panics sends none.
#[derive(Debug)]
struct DriverServer {
    guardian: Child,
}

impl DriverServer {
    /// A server that listens, and its port. Several start at a time, and one ends again if another process has taken the port
    /// of its choice on the other address family.
    async fn listening(program: &Path) -> Result<(Self, u16)> {
        let mut attempt = 1;
        loop {
            let mut server = Self::start(program, &["--port=0"])?;
            match server.port().await {
                Ok(port) => return Ok((server, port)),
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let guardian = Command::new("sh")
            .args(["-c", GUARDIAN, "guardian"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("the WebDriver server does not start")?;
        Ok(Self { guardian })
    }

    /// The port that the server says it listens on.
    async fn port(&mut self) -> Result<u16> {
        let output = self.guardian.stdout.take().context("the server has no output")?;
        let mut lines = BufReader::new(ChildStdout::from_std(output)?).lines();
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
}

impl Drop for DriverServer {
    /// Closes the guardian's input, and blocks until it has killed itself with its group.
    fn drop(&mut self) {
        let _ = self.guardian.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// True while a process runs. One that is dead stays in the table until somebody asks for its exit code.
    fn runs(pid: &str) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[tokio::test]
    async fn a_test_that_panics_leaves_no_browser_behind() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = r#"sleep 600 & echo $! >"$1"; echo "It was started successfully on port 4242."; wait"#;
        let arguments = ["-c", script, "driver", file.to_str().unwrap()];
        let mut server = DriverServer::start(Path::new("/bin/sh"), &arguments).unwrap();
        assert_eq!(server.port().await.unwrap(), 4242);
        let pid = std::fs::read_to_string(&file).unwrap();
        assert!(runs(pid.trim()));

        let test = std::thread::spawn(move || assert_eq!(server.guardian.id(), 0, "an assertion that fails"));
        test.join().unwrap_err();
        let started = Instant::now();
        while runs(pid.trim()) {
            assert!(started.elapsed() < WAIT_TIMEOUT, "{pid} still runs");
            std::thread::sleep(POLL);
        }
    }

    #[tokio::test]
    async fn a_server_whose_port_is_taken_is_started_again() {
        let directory = tempfile::tempdir().unwrap();
        let driver = directory.path().join("driver");
        let script = "#!/bin/sh\nif mkdir \"$0.started\"; then exit 1; fi\necho 'It was started successfully on port 4242.'; read -r _\n";
        std::fs::write(&driver, script).unwrap();
        std::fs::set_permissions(&driver, std::fs::Permissions::from_mode(0o700)).unwrap();
        let (_server, port) = DriverServer::listening(&driver).await.unwrap();
        assert_eq!(port, 4242);
    }

    #[tokio::test]
    async fn a_server_that_does_not_start_is_an_error() {
        let mut server = DriverServer::start(Path::new("/no/such/driver"), &[]).unwrap();
        let error = server.port().await.unwrap_err().to_string();
        assert!(error.contains("ended before it listened"), "{error}");
    }
}
