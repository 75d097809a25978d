use super::*;

#[test]
fn equal_strings_are_shared() {
    let mut pool = Pool::default();
    let first = pool.share("a");
    assert!(Arc::ptr_eq(&first, &pool.share("a")));
}

#[test]
fn unused_strings_are_let_go() {
    let mut pool = Pool::default();
    let kept = pool.share("kept");
    for number in 0..5000 {
        let _ = pool.share(&number.to_string());
    }
    assert!(pool.strings.len() < 3000, "{}", pool.strings.len());
    assert!(Arc::ptr_eq(&kept, &pool.share("kept")));
}

#[test]
fn long_texts_are_gone_with_their_holders() {
    let mut pool = Pool::default();
    for number in 0..2_000 {
        let long = format!("{number}{}", "x".repeat(MAX_SHARED));
        assert_eq!(*pool.share(&long), *long);
    }
    assert!(pool.strings.is_empty());
}
