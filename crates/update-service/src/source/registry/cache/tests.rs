use super::*;

fn release(text: &str) -> Content {
    Content::Release {
        architecture: "amd64".to_owned(),
        document: text.to_owned(),
    }
}

#[test]
fn entries_outlive_the_process() {
    let directory = tempfile::tempdir().unwrap();
    let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
    let cache = Cache::on_disk(directory.path()).unwrap();
    cache.put(a, release("{}"));
    cache.put(b, Content::NoRelease);
    let cache = Cache::on_disk(directory.path()).unwrap();
    assert_eq!(cache.get(&a).as_deref(), Some(&release("{}")));
    assert_eq!(cache.get(&b).as_deref(), Some(&Content::NoRelease));
    assert_eq!(cache.get(&Digest::of(b"c")), None);
}

#[test]
fn a_damaged_entry_counts_as_absent_and_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let (digest, other) = (Digest::of(b"a"), Digest::of(b"b"));
    Cache::on_disk(directory.path())
        .unwrap()
        .put(digest, release("whole"));
    let path = directory.path().join(digest.hex());
    let whole = fs::read(&path).unwrap();
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    for damaged in [&b""[..], &whole[..whole.len() / 2], &flipped, b"garbage"] {
        fs::write(&path, damaged).unwrap();
        let cache = Cache::on_disk(directory.path()).unwrap();
        assert_eq!(cache.get(&digest), None);
        cache.put(digest, release("again"));
        let cache = Cache::on_disk(directory.path()).unwrap();
        assert_eq!(cache.get(&digest).as_deref(), Some(&release("again")));
    }
    // A file under another name is ignored.
    fs::copy(&path, directory.path().join(other.hex())).unwrap();
    assert_eq!(Cache::on_disk(directory.path()).unwrap().get(&other), None);
}

#[test]
fn what_is_held_in_memory_is_bounded_and_the_rest_is_read_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::on_disk(directory.path()).unwrap();
    let large = release(&"x".repeat(256 * 1024));
    for number in 0..300_u32 {
        cache.put(Digest::of(&number.to_le_bytes()), large.clone());
        let held: usize = cache.lock().entries.len() * 256 * 1024;
        assert!(held <= MAX_HELD, "{held} bytes after {number} entries");
    }
    for number in [0_u32, 150, 299] {
        let digest = Digest::of(&number.to_le_bytes());
        assert_eq!(cache.get(&digest).as_deref(), Some(&large));
    }
}

#[test]
fn without_a_directory_it_remembers_in_memory() {
    let cache = Cache::in_memory();
    let digest = Digest::of(b"a");
    cache.put(digest, Content::NoRelease);
    assert_eq!(cache.get(&digest).as_deref(), Some(&Content::NoRelease));
}
