use std::path::Path;
use std::time::Duration;

use super::{Process, Spec, tail};

fn scratch(name: &str) -> std::path::PathBuf {
    let dir = std::env::temp_dir().join(format!("spoke-sim-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn spec(dir: &Path, script: &str) -> Spec {
    Spec {
        argv: ["/bin/bash", "-c", script].map(str::to_owned).to_vec(),
        env: vec![
            ("PATH".into(), "/usr/bin:/bin".into()),
            ("NAME".into(), "world".into()),
        ],
        dir: dir.to_path_buf(),
        log: dir.join("log"),
    }
}

async fn ends(process: &mut Process) -> i32 {
    tokio::time::timeout(Duration::from_secs(10), process.wait())
        .await
        .expect("it ends")
        .unwrap()
}

async fn gone(pid: &str) -> bool {
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    for _ in 0..500 {
        // A zombie counts as ended, because no process reaps it here.
        if stat().is_empty() || stat().contains(") Z ") {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

async fn line(log: &Path) -> String {
    for _ in 0..500 {
        let text = tail(log, 100);
        if !text.is_empty() {
            return text;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no output");
}

#[tokio::test]
async fn a_command_runs_with_its_environment_alone_and_its_code_is_told() {
    let dir = scratch("code");
    let mut process = Process::start(&spec(&dir, "echo hello $NAME $HOME; exit 3")).unwrap();
    assert_eq!(ends(&mut process).await, 3);
    assert_eq!(tail(&dir.join("log"), 100), "hello world");
    let mut missing = Process::start(&Spec {
        argv: vec!["/no/such/program".into()],
        ..spec(&dir, "")
    })
    .unwrap();
    assert_eq!(ends(&mut missing).await, 127);
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn it_ends_when_asked_unless_it_will_not() {
    let dir = scratch("term");
    let mut process = Process::start(&spec(
        &dir,
        "trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done",
    ))
    .unwrap();
    line(&dir.join("log")).await;
    process.terminate().await;
    assert_eq!(ends(&mut process).await, 5);

    std::fs::remove_file(dir.join("log")).unwrap();
    let mut stubborn =
        Process::start(&spec(&dir, "trap '' TERM; echo $$; while :; do sleep 0.05; done")).unwrap();
    let pid = line(&dir.join("log")).await;
    stubborn.terminate().await;
    stubborn.kill();
    assert_eq!(ends(&mut stubborn).await, 137);
    assert!(gone(&pid).await);
    std::fs::remove_dir_all(dir).unwrap();
}

#[tokio::test]
async fn what_it_leaves_behind_ends_with_it() {
    let dir = scratch("group");
    let mut process = Process::start(&spec(&dir, "sleep 1000 & echo $!; exit 0")).unwrap();
    assert_eq!(ends(&mut process).await, 0);
    assert!(gone(&line(&dir.join("log")).await).await);
    let dropped = Process::start(&spec(&dir, "echo; echo $$; exec sleep 1000")).unwrap();
    let pid = loop {
        let text = tail(&dir.join("log"), 100);
        if let Some(pid) = text.lines().nth(2) {
            break pid.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    drop(dropped);
    assert!(gone(&pid).await);
    std::fs::remove_dir_all(dir).unwrap();
}
