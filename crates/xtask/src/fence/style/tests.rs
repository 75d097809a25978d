use super::*;

#[test]
fn long_files_are_named_but_not_generated_ones() {
    let long = "x\n".repeat(MAX_LINES + 1);
    assert_eq!(
        in_file(Path::new("crates/a/src/b.rs"), &long),
        ["crates/a/src/b.rs: 601 lines, at most 600 are allowed"]
    );
    assert!(in_file(Path::new("crates/a/src/b.rs"), &"x\n".repeat(MAX_LINES)).is_empty());
    assert!(in_file(Path::new("e2e/hub-tools/etcd/go.sum"), &long).is_empty());
    assert!(in_file(Path::new("crates/a/src/snapshots/b.snap"), &long).is_empty());
}

#[test]
fn empty_names_are_refused_for_files_and_directories() {
    for name in ["crates/a/src/utils.rs", "e2e/tests/common/mod.rs"] {
        assert_eq!(in_file(Path::new(name), "").len(), 1, "{name}");
    }
    assert!(in_file(Path::new("crates/a/src/manageable.rs"), "").is_empty());
}

#[test]
fn paths_below_a_home_are_found_everywhere_and_urls_are_not() {
    let here = |dir: &str, rest: &str| format!("/{dir}/{rest}");
    let line = format!("see \"{}\";", here("home", "me/x"));
    assert_eq!(home_path(&line), Some(here("home", "me/x").as_str()));
    let found = in_file(Path::new("docs/a.md"), &line);
    let told = format!("docs/a.md:1: {} is an absolute path", here("home", "me/x"));
    assert!(found[0].starts_with(&told), "{found:?}");
    assert_eq!(home_path(&format!("example.com{}", here("home", "v1"))), None);
}

#[test]
fn absolute_paths_that_code_opens_are_found_unless_every_system_has_them() {
    let open = |path: &str| format!("let x = Path::new(\"{path}\");");
    let found = in_file(Path::new("crates/a/src/b.rs"), &open("/mnt/x"));
    assert!(found[0].contains("/mnt/x is an absolute path"), "{found:?}");
    for path in ["/proc/self/stat", "/own.yml", "relative/x", "/no/such/program"] {
        assert_eq!(opened_path(&open(path)), None, "{path}");
    }
    assert_eq!(opened_path("get(\"/apis/v1\")"), None);
    assert!(in_file(Path::new("docs/a.md"), &open("/mnt/x")).is_empty());
}

#[test]
fn a_crate_without_its_bans_or_the_shared_settings_is_named() {
    let bans = IMPURE
        .map(|banned| format!("{{ path = \"{banned}\" }}\n"))
        .concat();
    assert!(in_settings("api", &format!("a = 1\n{bans}"), "a = 1\n", &IMPURE).is_empty());
    assert_eq!(in_settings("api", &bans, "# why\na = 1\n", &IMPURE).len(), 1);
    assert_eq!(
        in_settings("api", "a = 1\n", "a = 1\n", &IMPURE).len(),
        IMPURE.len()
    );
}

#[test]
fn lints_of_the_workspace_are_seen() {
    assert!(has_workspace_lints(
        "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"
    ));
    assert!(!has_workspace_lints("[package]\nworkspace = true\n"));
}

#[test]
fn long_functions_are_named_with_their_line_wherever_they_are() {
    let function = |lines: usize| {
        format!(
            "impl A {{\n    fn short(&self);\n    pub fn b<T>(a: [u8; 2]) -> T\n    where T: C {{\n{}    }}\n}}\n",
            "        // {\n".repeat(lines - 3)
        )
    };
    let name = Path::new("crates/a/src/b.rs");
    assert!(in_source(name, &function(MAX_FUNCTION_LINES)).is_empty());
    assert_eq!(
        in_source(name, &function(MAX_FUNCTION_LINES + 1)),
        ["crates/a/src/b.rs:3: `b` has 81 lines, at most 80 are allowed"]
    );
    let test = format!(
        "#[cfg(test)]\nmod tests {{\n{}}}\n",
        function(MAX_FUNCTION_LINES + 1)
    );
    assert!(in_source(name, &test)[0].contains("`b` has 81 lines"));
    assert!(in_source(Path::new("docs/b.md"), &function(MAX_FUNCTION_LINES + 1)).is_empty());
}

#[test]
fn long_tests_belong_into_tests_rs() {
    let module = |lines: usize| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(lines - 2));
    let name = Path::new("crates/a/src/b.rs");
    assert!(in_source(name, &module(MAX_INLINE_TESTS)).is_empty());
    assert_eq!(
        in_source(name, &module(MAX_INLINE_TESTS + 1)),
        ["crates/a/src/b.rs:2: 61 lines of tests belong into a file of their own, tests.rs"]
    );
    assert!(in_source(name, "#[cfg(test)]\nmod tests;\nfn a() {}\n").is_empty());
    assert_eq!(
        in_source(Path::new("crates/a/src/b_tests.rs"), ""),
        ["crates/a/src/b_tests.rs: the tests of b.rs belong into b/tests.rs"]
    );
    assert!(in_source(Path::new("crates/a/tests/b_tests.rs"), "").is_empty());
}
