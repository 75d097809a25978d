use super::*;

#[test]
fn comments_texts_and_characters_are_blank_and_lifetimes_are_not() {
    let text = "a /* b /* c */ d */ e // f \"\ng \"h \\\" i\" r#\"j \" k\"# b'\"' 'l' '\\'' &'m n";
    let words: Vec<&str> = code(text)
        .split_whitespace()
        .map(|w| &*w.to_owned().leak())
        .collect();
    assert_eq!(words, ["a", "e", "g", "b", "&'m", "n"]);
    assert_eq!(code(text).lines().count(), 2, "line breaks stay");
}

#[test]
fn tests_go_with_their_attributes_and_what_follows_stays() {
    let text = "#[cfg(test)]\n#[path = \"x\"]\nmod tests;\nfn a() {}\n\
                #[cfg(any(test, feature = \"testing\"))]\nfn b(x: [u8; 2]) { c }\n\
                #[cfg(not(test))]\nfn d() {}\n#[cfg(test)]\nmod tests { fn e() { { } } }\nfn f() {}";
    let code = code(text);
    let names: Vec<&str> = tokens(&code)
        .windows(2)
        .filter_map(|pair| match pair {
            [Token::Word("fn"), Token::Word(name)] => Some(*name),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["a", "d", "f"]);
    assert!(declared(&code).is_empty());
}

#[test]
fn blocks_have_a_line_a_name_and_a_length_and_declarations_are_none() {
    let code = "fn a();\nconst B: fn(u8) = c;\n\npub const fn  d<T>(e: [u8; 2])\n-> T {\n    { }\n}\nmod f { fn g() {} }";
    let found = blocks(code, "fn");
    assert_eq!(found, [(4, "d".to_owned(), 4), (8, "g".to_owned(), 1)]);
    assert_eq!(blocks(code, "mod"), [(8, "f".to_owned(), 1)]);
}

#[test]
fn types_are_found_at_the_top_and_in_inline_modules_but_not_in_implementations() {
    let code = "struct A; mod b { enum B {} } impl C for D { type E = F; } trait G { type H; } fn i() { struct J; } \
                type K = L; fn m(mod_: u8) {} type N = O;";
    let found: Vec<String> = types(code).into_keys().collect();
    assert_eq!(found, ["A", "B", "G", "K", "N"]);
}

#[test]
fn types_are_found_in_macros_and_where_these_are_used() {
    let code = "macro_rules! a { ($b:ident, { $($c:ident)* }) => { enum D { $($c),* } struct $b; \
                impl D { fn e() { struct F; } } }; (g) => { struct G; }; } \
                a! { H, { i j } } k! { pub struct L { m: u8 } impl N { type O = P; } } \
                fn q() { match r { s => { struct T; } } u! { struct V; } } struct W;";
    let found: Vec<String> = types(code).into_keys().collect();
    assert_eq!(found, ["D", "G", "L", "W"]);
}

#[test]
fn the_modules_of_this_crate_are_found_without_its_tests() {
    let found = modules(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs")).unwrap();
    let here = found
        .iter()
        .find(|module| module.file == "fence/source.rs")
        .unwrap();
    assert_eq!(here.path, ["fence", "source"]);
    assert!(!here.code.contains("the_modules_of_this_crate"));
}
