use super::*;

fn shell(name: &str, script: &str) -> ProcessSpec {
    ProcessSpec::new(name, Path::new("/bin/sh")).args(["-c", script])
}

fn alive(pid: u32) -> bool {
    Command::new("sh")
        .args(["-c", &format!("kill -0 {pid} 2>/dev/null")])
        .status()
        .unwrap()
        .success()
}

#[tokio::test]
async fn the_exit_code_and_the_output_of_a_child_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(&shell("child", "echo out; echo err >&2; exit 3"), dir.path()).unwrap();
    let status = process.wait(Duration::from_secs(10)).await.unwrap();
    assert_eq!(status.code(), Some(3));
    assert_eq!(process.log_tail(10), "out\nerr");
    assert_eq!(process.log_tail(1), "err");
}

#[tokio::test]
async fn a_stop_asks_first_and_kills_after_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let polite = "trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    let process = Process::start(&shell("polite", polite), dir.path()).unwrap();
    until(|| process.log_tail(1) == "ready").await;
    assert_eq!(
        process.stop(Duration::from_secs(10)).await.unwrap().code(),
        Some(7)
    );

    let deaf = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
    let process = Process::start(&shell("deaf", deaf), dir.path()).unwrap();
    until(|| process.log_tail(1) == "ready").await;
    assert_eq!(
        process.stop(Duration::from_millis(100)).await.unwrap().code(),
        Some(137)
    );
}

#[tokio::test]
async fn a_dropped_process_is_dead() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(&shell("dropped", "exec sleep 600"), dir.path()).unwrap();
    let pid = process.pid();
    assert!(alive(pid));
    drop(process);
    assert!(!alive(pid));
}

#[tokio::test]
async fn a_detached_process_survives_its_handle_and_dies_by_its_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start_detached(&shell("detached", "exec sleep 600"), dir.path()).unwrap();
    let (pid, fifo) = (process.pid(), process.control().unwrap().to_path_buf());
    drop(process);
    assert!(alive(pid));
    kill_detached(&fifo).await.unwrap();
    until(|| !alive(pid)).await;
    kill_detached(&fifo).await.unwrap();
}

#[tokio::test]
async fn a_program_that_does_not_exist_shows_as_an_early_exit_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(
        &ProcessSpec::new("absent", Path::new("/no/such/program")),
        dir.path(),
    )
    .unwrap();
    assert_eq!(
        process.wait(Duration::from_secs(10)).await.unwrap().code(),
        Some(127)
    );
    assert!(
        process.log_tail(2).contains("not found"),
        "{}",
        process.log_tail(2)
    );
}

async fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 10 s");
        tokio::time::sleep(POLL).await;
    }
}
