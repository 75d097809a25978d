//! Processes that never outlive what started them.
//!
//! Each runs under a small shell, its guardian, which holds one end of a pipe from us. Signals travel through
//! the pipe as names; when it closes, by a stop, a panic, Ctrl-C or SIGKILL of this process, the guardian
//! kills its child. A detached process listens on a named pipe in its directory instead, and lives until
//! someone writes `KILL` to it. Guardians are in separate process groups, so Ctrl-C reaches only the parent.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

/// How long a killed process may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// Arguments: log file, named pipe or nothing, then the command. Prints the child's pid.
const GUARDIAN: &str = r#"
log=$1; fifo=$2; shift 2
if [ -n "$fifo" ]; then trap '' HUP; mkfifo -m 600 "$fifo" || exit 127; exec 3<>"$fifo"; else exec 3<&0; fi
"$@" </dev/null >>"$log" 2>&1 3<&- &
child=$!
(
  while read -r signal <&3; do kill -s "$signal" "$child" 2>/dev/null; done
  kill -s KILL "$child" 2>/dev/null
) </dev/null >/dev/null 2>&1 &
watcher=$!
exec 3<&-
echo "$child"
exec >/dev/null
wait "$child"; code=$?
kill -s KILL "$watcher" 2>/dev/null
if [ -n "$fifo" ]; then rm -f "$fifo"; fi
exit "$code"
"#;

/// What to run.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
}

impl ProcessSpec {
    /// A program under a name; the name also names its log file.
    #[must_use]
    pub fn new(name: &str, program: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_path_buf(),
            args: Vec::new(),
            envs: Vec::new(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }
}

/// A signal to send to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Ask it to end.
    Term,
    /// End it now.
    Kill,
    /// What Ctrl-C sends.
    Int,
    /// Freeze it.
    Stop,
    /// Let the process continue.
    Cont,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Term => "TERM",
            Self::Kill => "KILL",
            Self::Int => "INT",
            Self::Stop => "STOP",
            Self::Cont => "CONT",
        }
    }
}

/// A running process. Dropping it kills the process, unless it is detached.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: u32,
    log: PathBuf,
    fifo: Option<PathBuf>,
    guardian: Mutex<Guardian>,
}

#[derive(Debug)]
struct Guardian {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Process {
    /// Starts a process that ends with this one; its output is appended to `<dir>/<name>.log`.
    ///
    /// # Errors
    /// No shell, or the log cannot be written. A program that does not exist shows as an early exit.
    pub fn start(spec: &ProcessSpec, dir: &Path) -> Result<Self> {
        Self::start_with(spec, dir, None)
    }

    /// Starts a process that outlives this one, until `KILL` is written to its named pipe in `dir`.
    ///
    /// # Errors
    /// As [`Process::start`], and when the named pipe exists already.
    pub fn start_detached(spec: &ProcessSpec, dir: &Path) -> Result<Self> {
        Self::start_with(spec, dir, Some(dir.join(format!("{}.ctl", spec.name))))
    }

    fn start_with(spec: &ProcessSpec, dir: &Path, fifo: Option<PathBuf>) -> Result<Self> {
        let log = dir.join(format!("{}.log", spec.name));
        let mut shell = Command::new("sh")
            .args(["-c", GUARDIAN, "guardian"])
            .arg(&log)
            .arg(fifo.as_deref().unwrap_or(Path::new("")))
            .arg(&spec.program)
            .args(&spec.args)
            .envs(spec.envs.iter().map(|(name, value)| (name, value)))
            .stdin(if fifo.is_some() {
                Stdio::null()
            } else {
                Stdio::piped()
            })
            .stdout(Stdio::piped())
            .stderr(OpenOptions::new().create(true).append(true).open(&log)?)
            .process_group(0)
            .spawn()
            .context("sh does not start")?;
        let pipe = shell.stdin.take();
        let stdout = shell
            .stdout
            .take()
            .ok_or_else(|| anyhow!("the guardian has no output"))?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let pid = line.trim().parse().with_context(|| {
            format!(
                "the guardian of {} gave no pid; the end of its log:\n{}",
                spec.name,
                tail(&log, 5)
            )
        })?;
        let guardian = Mutex::new(Guardian { shell, pipe });
        Ok(Self {
            name: spec.name.clone(),
            pid,
            log,
            fifo,
            guardian,
        })
    }

    /// The name it was started under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The file its output goes to.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The named pipe of a detached process.
    #[must_use]
    pub fn control(&self) -> Option<&Path> {
        self.fifo.as_deref()
    }

    /// The last lines of its log.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }

    /// How it ended, or nothing while it runs. A death by signal N shows as exit code 128 + N.
    ///
    /// # Errors
    /// The operating system cannot say.
    pub fn exited(&self) -> Result<Option<ExitStatus>> {
        Ok(self.guardian().shell.try_wait()?)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// The process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let mut guardian = self.guardian();
        if guardian.shell.try_wait()?.is_some() {
            bail!("{} is gone", self.name);
        }
        match (&self.fifo, &mut guardian.pipe) {
            (Some(fifo), _) => write_signal(fifo, signal),
            (None, Some(pipe)) => Ok(writeln!(pipe, "{}", signal.name())?),
            (None, None) => bail!("{} was told to stop already", self.name),
        }
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// It still runs after `timeout`.
    pub async fn wait(&self, timeout: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.exited()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("{} still runs after {timeout:?}", self.name);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Asks it to end, kills it after `grace`, and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be killed.
    pub async fn stop(&self, grace: Duration) -> Result<ExitStatus> {
        if self.exited()?.is_none() && !grace.is_zero() && self.signal(Signal::Term).is_ok() {
            // A frozen process would not see the request.
            let _ = self.signal(Signal::Cont);
            if let Ok(status) = self.wait(grace).await {
                return Ok(status);
            }
        }
        self.kill().await
    }

    /// Kills it and waits until it is gone.
    ///
    /// # Errors
    /// It cannot be killed.
    pub async fn kill(&self) -> Result<ExitStatus> {
        self.let_die();
        self.wait(KILL_TIMEOUT).await
    }

    /// Begins the end without waiting for it.
    fn let_die(&self) {
        if let Some(fifo) = &self.fifo
            && fifo.exists()
        {
            let _ = write_signal(fifo, Signal::Kill);
        }
        drop(self.guardian().pipe.take());
    }

    /// Kills it and waits until it is gone, where nothing can be awaited.
    pub(crate) fn kill_blocking(&self) {
        self.let_die();
        let deadline = Instant::now() + KILL_TIMEOUT;
        while matches!(self.guardian().shell.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
    }

    fn guardian(&self) -> MutexGuard<'_, Guardian> {
        self.guardian.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.fifo.is_none() {
            self.kill_blocking();
        }
    }
}

/// Kills a detached process known by its named pipe, and waits until its guardian has removed the pipe.
///
/// # Errors
/// The pipe cannot be written, or is still there after some seconds: no guardian reads it.
pub async fn kill_detached(fifo: &Path) -> Result<()> {
    if !fifo.exists() {
        return Ok(());
    }
    write_signal(fifo, Signal::Kill)?;
    let deadline = Instant::now() + KILL_TIMEOUT;
    while fifo.exists() {
        if Instant::now() > deadline {
            bail!("nothing answers on {}", fifo.display());
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Opened for reading too, so that a pipe whose guardian is gone does not block the writer.
fn write_signal(fifo: &Path, signal: Signal) -> Result<()> {
    let mut pipe = OpenOptions::new()
        .read(true)
        .write(true)
        .open(fifo)
        .with_context(|| format!("cannot open {}", fifo.display()))?;
    Ok(writeln!(pipe, "{}", signal.name())?)
}

/// The last lines of a text file; what cannot be read is left out.
#[must_use]
pub fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

#[cfg(test)]
mod tests;
