use super::*;

/// Modules from file names and code; the path of `a/b.rs` is `a`, `b`.
fn modules(files: &[(&str, &str)]) -> Vec<Module> {
    let made = files.iter().map(|(file, code)| {
        let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let path = stem
            .split('/')
            .filter(|part| *part != "lib")
            .map(str::to_owned)
            .collect();
        Module {
            file: (*file).to_owned(),
            path,
            code: source::code(code),
        }
    });
    made.collect()
}

fn edges(files: &[(&str, &str)]) -> Vec<String> {
    let modules = modules(files);
    let found = imports(&modules);
    let lines = found
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| format!("{from} → {to}")));
    lines.collect()
}

#[test]
fn a_use_a_path_in_the_code_and_a_path_by_an_imported_module_are_imports() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::{self, Thing as Other};\nuse std::fmt;"),
        ("b.rs", "fn f() { crate::c::g(); }\nstruct Thing;"),
        ("c.rs", "use crate::d;\nfn g() { d::h(); std::fmt::x(); }"),
        ("d.rs", "fn h() {}"),
    ]);
    assert_eq!(found, ["a.rs → b.rs", "b.rs → c.rs", "c.rs → d.rs"]);
}

#[test]
fn a_re_exported_name_belongs_to_the_file_that_defines_it_and_the_re_export_is_no_import() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;\npub use b::Thing; pub(crate) use b::*;"),
        ("a.rs", "use crate::{Thing, More};"),
        ("b.rs", "pub struct Thing; pub fn More() {}"),
    ]);
    assert_eq!(found, ["a.rs → b.rs"]);
}

#[test]
fn a_parent_that_uses_its_child_imports_it_and_the_child_may_use_its_parents() {
    let found = edges(&[
        ("lib.rs", "mod a; mod c;\npub struct Root;"),
        ("a/mod.rs", "mod b;\nstruct Shared;\nfn f() { b::g() }"),
        (
            "a/b.rs",
            "use super::Shared; use crate::Root; use crate::c::Other;\npub fn g() {}",
        ),
        ("c.rs", "pub struct Other;"),
    ]);
    assert_eq!(found, ["a/b.rs → c.rs", "a/mod.rs → a/b.rs"]);
}

#[test]
fn super_in_an_inline_module_is_the_file_and_all_of_a_module_is_an_import_of_it() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "mod inner { use super::Here; fn f() { super::super::b::g() } }\nstruct Here;",
        ),
        ("b.rs", "use crate::a::*;\npub fn g() {}"),
    ]);
    assert_eq!(found, ["a.rs → b.rs", "b.rs → a.rs"]);
}

#[test]
fn a_circle_over_three_files_is_found_with_all_its_files_and_what_hangs_off_it_is_not() {
    let modules = modules(&[
        ("lib.rs", "mod a; mod b; mod c; mod d;"),
        ("a.rs", "use crate::b::X;"),
        ("b.rs", "use crate::c::Y;\nstruct X;"),
        ("c.rs", "fn f() { crate::a::g(); crate::d::h() }\nstruct Y;"),
        ("d.rs", "fn h() {}"),
    ]);
    let found = circles(&imports(&modules));
    let files: Circle = ["a.rs", "b.rs", "c.rs"].map(str::to_owned).into();
    assert_eq!(found, [files]);
    assert_eq!(
        messages("x/src", &found),
        ["x/src: these files import each other in a circle: a.rs, b.rs, c.rs"]
    );
}
