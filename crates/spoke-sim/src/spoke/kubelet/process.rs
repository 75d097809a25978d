//! The command of a container as a process of this machine.
//!
//! It runs in a separate process group under a small shell that reads from a pipe of the simulator. Words on the pipe are
//! signals for the whole group, and the group is killed when the pipe closes. Therefore no command outlives the simulator, and
//! background processes of a command end with it, as in a container.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};

/// The shell of a process group. The watcher ignores TERM, the outer shell survives it, and the command receives it.
const GUARDIAN: &str = r#"
exec 3<&0
trap : TERM
"$@" </dev/null 3<&- &
child=$!
( trap '' TERM; while read -r signal; do kill -s "$signal" 0; done <&3; kill -s KILL 0 ) </dev/null >/dev/null 2>&1 &
exec 3<&-
while :; do wait "$child"; code=$?; kill -s 0 "$child" 2>/dev/null || exit "$code"; done
"#;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// Working directory.
    pub dir: PathBuf,
    /// The file to which output is appended.
    pub log: PathBuf,
}

/// A running process group.
pub struct Process {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Process {
    /// Starts a command.
    ///
    /// # Errors
    /// The log cannot be opened or the shell cannot be started. A program that does not exist is not an error here: it ends with
    /// 127, as in the shell of a container.
    pub fn start(spec: &Spec) -> io::Result<Self> {
        let log = File::options().create(true).append(true).open(&spec.log)?;
        let mut child = Command::new("/bin/sh")
            .arg("-c")
            .arg(GUARDIAN)
            .arg("container")
            .args(&spec.argv)
            .env_clear()
            .envs(spec.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&spec.dir)
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .kill_on_drop(false)
            .spawn()?;
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// Waits for the end of the command. Returns its exit code, or 128 plus the number of the signal that ended it.
    ///
    /// # Errors
    /// The operating system does not report the exit status.
    pub async fn wait(&mut self) -> io::Result<i32> {
        let status = self.child.wait().await?;
        // Closing the pipe ends background processes of the command.
        self.pipe = None;
        Ok(code(status))
    }

    /// Asks the process group to end.
    pub async fn terminate(&mut self) {
        if let Some(pipe) = &mut self.pipe {
            // A process group that has ended needs no signal.
            let _ = pipe.write_all(b"TERM\n").await;
            let _ = pipe.flush().await;
        }
    }

    /// Kills the process group.
    pub fn kill(&mut self) {
        self.pipe = None;
    }
}

fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// The end of a log, at most `limit` bytes, in whole characters.
#[must_use]
pub fn tail(log: &Path, limit: usize) -> String {
    let bytes = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut start = text.len().saturating_sub(limit);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].trim_end().to_owned()
}

#[cfg(test)]
mod tests;
